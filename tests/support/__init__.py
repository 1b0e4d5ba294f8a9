"""What tests of several folders share: servers, stacks, made records and files."""
