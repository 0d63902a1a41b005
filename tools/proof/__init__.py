"""Proof of the catalog by tools of others: ptxas, gcc, archspec and LLVM.

`readings` asks the tools, `checks` compares what they said with the catalog; only the first has effects.
"""
