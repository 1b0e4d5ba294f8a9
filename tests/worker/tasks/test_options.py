"""Each task refuses a bad value of its options, and says what would be right."""

import pytest

from worker.tasks import cifar10, communication, digits, digits_linear, imagenet, linear, steps
from worker.training.options import Options, parse


@pytest.mark.parametrize(
    ("config", "arguments", "said"),
    [
        (cifar10.Config, "--depth=18", "argument --depth: invalid choice: 18"),
        (cifar10.Config, "--worker-batch-size=0", "--worker-batch-size must be at least 1"),
        (cifar10.Config, "--goal=101", "--goal must be from 0 to 100"),
        (cifar10.Config, "--compression=zip", "argument --compression: invalid choice: 'zip'"),
        (cifar10.Config, "--compression=fp16 --exchange=flat", "--compression needs --exchange"),
        (imagenet.Config, "--image-size=31", "--image-size must be at least 32"),
        (imagenet.Config, "--loaders=-1", "--loaders must be"),
        (imagenet.Config, "--momentum=0", "--momentum must be more than 0"),
        (digits.Config, "--batch-size=1434", "--batch-size must be from 1 to 1433"),
        (digits.Config, "--momentum=1", "--momentum must be"),
        (digits.Config, "--seed=-1", "--seed must be"),
        (digits_linear.Config, "--batch-size=1434", "--batch-size must be"),
        (digits_linear.Config, "--learning-rate=nan", "--learning-rate must be more than 0"),
        (digits_linear.Config, "--l2=-1", "--l2 must be at least 0"),
        (linear.Config, "--batch-size=0", "--batch-size must be at least 1"),
        (linear.Config, "--decay=2", "--decay must be from 0 to 1"),
        (linear.Config, "--record-every=0", "--record-every must be"),
        (steps.Config, "--steps=0", "--steps must be at least 1"),
        (steps.Config, "--rate=nan", "--rate must be more than 0"),
        (communication.Config, "--dtypes=float32,int16", "--dtypes must be among float32, float64"),
        (communication.Config, "--dtypes=", "--dtypes must be among"),
        (communication.Config, "--backend=mpi --dtypes=float16", "--dtypes with mpi must not be"),
        (communication.Config, "--backend=nccl --device=cpu", "--device must be cuda, or auto"),
        (communication.Config, "--operations=reduce", "--operations must be among all_reduce"),
        (communication.Config, "--max-bytes=3", "--max-bytes must be at least --min-bytes"),
        (communication.Config, "--factor=1", "--factor must be at least 2"),
        (communication.Config, "--seconds=inf", "--seconds must be"),
        (communication.Config, "--rounds=4", "--rounds must be at least 5"),
    ],
)
def test_a_bad_value_is_refused(
    config: type[Options], arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        parse(config, arguments.split())
    assert exited.value.code == 2
    assert said in capsys.readouterr().err
