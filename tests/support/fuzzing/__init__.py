"""A differential fuzzer of compile(): random programs run eagerly and compiled, and everything that they leave behind is compared.

`python -m fuzzing --programs 20000 --seed 7` in tests/support; `--replay 12345` runs one program again and prints it.
"""
