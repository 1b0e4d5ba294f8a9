"""The pages of a published site, which treats archives as untrusted."""

import re
from dataclasses import replace
from pathlib import Path

from mlbench import archive
from mlbench.archive import bundle
from mlbench.contract.records import RunSet
from mlbench_publish import site
from tests.support.results import (
    make_aimless,
    make_archive,
    make_matrix,
    make_result,
    make_unreached,
)


def publish(folder: Path, *files: Path) -> dict[str, str]:
    """Publish archives and return the HTML pages by path."""
    site.write(site.read_entries(files), [], folder)
    return {str(page.relative_to(folder)): page.read_text() for page in folder.rglob("*.html")}


def test_results_are_listed_by_task_and_time(tmp_path: Path) -> None:
    results = [make_unreached(1), make_result(2), make_result(3, 4), make_aimless(4)]
    pages = publish(tmp_path / "site", *(make_archive(tmp_path, one) for one in results))
    index = pages.pop("index.html")
    assert re.findall(r"<h2>(.*)</h2>", index) == ["digits: Validation accuracy ≥ 97 %", "own code"]
    listed = re.findall(r'href="(runs/.*\.html)"', index)
    assert sorted(listed) == sorted(pages)
    workers = [re.findall(r">([124])</td>", row) for row in index.split("<tr>")[2:]]
    assert [one[0] for one in workers if one] == ["4", "1", "1", "1"]
    for text in (index, *pages.values()):
        elsewhere = r'@import|(?:src|href)="(?!data:|assets/|\.\./|runs/|#main)[^"]*'
        assert not re.search(elsewhere, text.partition("<main")[0])


def test_a_run_page_has_results_an_archive_and_commands_to_repeat_the_run(tmp_path: Path) -> None:
    result = replace(
        make_result(7, 2), rule_violations=("batch_size is 64",), disturbed=("waited 41 %",)
    )
    file = make_archive(tmp_path, result, seed=3, num_cpus=1.5, args={"epochs": "4"})
    pages = publish(tmp_path / "site", file)
    [page] = [text for path, text in pages.items() if path != "index.html"]
    [kept] = (tmp_path / "site" / "archives").iterdir()
    assert kept.read_bytes() == file.read_bytes()
    assert f'href="../archives/{kept.name}"' in page
    assert site.read_entries([file])[0].digest in page
    for text in ("batch_size is 64", "waited 41 %", "AMD EPYC", '"batch_size":128'):
        assert text in page
    assert re.findall(r"mlbench (?:run|verify|import) .*", page) == [
        "mlbench run digits --workers 2 --cpus 1.5 --seed 3 --set epochs=4",
        f"mlbench verify {kept.name}",
        f"mlbench import {kept.name}",
    ]


def test_the_page_of_own_code_names_its_commit(tmp_path: Path) -> None:
    command = "python 'my train.py' {rank} --token hunter3"  # earlier versions stored the token
    file = make_archive(tmp_path, make_aimless(1), image="local", command=command, backend="mpi")
    pages = publish(tmp_path / "site", file)
    [page] = [text for path, text in pages.items() if path != "index.html"]
    text = page.replace("&#39;", "'")
    assert "git checkout c0ffee" in text
    assert (
        "run --workers 1 --backend mpi --image local -- python 'my train.py' '{rank}' --token '***'"
        in text
    )
    assert "hunter3" not in text


def test_the_contents_of_an_archive_become_neither_markup_nor_paths(tmp_path: Path) -> None:
    evil = '../../<script>alert("x")</script>'
    name = evil.rpartition("/")[0].replace("/", "")  # a name with a slash is refused
    result = replace(make_result(1), name=name, benchmark=evil, rule_violations=(evil,))
    pages = publish(tmp_path / "site", make_archive(tmp_path, result, args={"a": f"$(x) {evil}"}))
    assert all(text not in page for page in pages.values() for text in (evil, name))
    assert len(pages) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"site", "1.mlbench"}


def test_a_site_can_be_extended_from_its_archives(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    publish(folder, make_archive(tmp_path, make_result(1)))
    pages = publish(folder, *folder.glob("archives/*"), make_archive(tmp_path, make_result(2, 2)))
    assert len(pages) == 3
    assert pages["index.html"].count('href="runs/') == 2


def test_a_set_has_a_page_and_a_downloadable_file(tmp_path: Path) -> None:
    comparison = make_matrix((1, 2), 2)
    files = [make_archive(tmp_path, result) for result in comparison.results]
    run_set = RunSet("scale", "2018-08-03T09:21:29Z", False, None, {}, (), "2 of 2 <places>")
    file = tmp_path / "scale.mlbench"
    bundle.write(file, dict(enumerate(files, 1)), run_set)
    digests = {}
    for result, archived in zip(comparison.results, files, strict=True):
        with archive.opened(archived) as sealed:
            digests[result.run_id] = sealed.digest
    entry = site.SetEntry(file, run_set, comparison, digests)
    site.write(site.read_entries(files), [entry], tmp_path / "site")
    index = (tmp_path / "site" / "index.html").read_text()
    assert ">scale</a></dt><dd>digits on 1, 2 workers: 2 of 2 &lt;places&gt;</dd>" in index
    [page] = (tmp_path / "site" / "runs").glob("set-scale-*.html")
    text = page.read_text()
    assert '"/api/sets/scale/analysis/"' in text
    assert text.count('"/runs/') == len(files)
    [kept] = (tmp_path / "site" / "archives").glob("set-scale-*.mlbench")
    site.write([], [replace(entry, file=kept)], tmp_path / "site")
    assert kept.read_bytes() == file.read_bytes()
