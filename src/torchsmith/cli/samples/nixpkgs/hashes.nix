# Hashes of real downloads that a machine without a network cannot make. A fetcher given one of them has the
# drvPath of the fixed-output derivation, but its outPath is that of our own small source, so that builds work.
[
  "sha256-RKiZLHBCneMtZKRgTEuW1K7+Jpi+tx11BMXuS1jC1xQ=" # pytorch/pytorch v2.10.0 with submodules
  "sha256-oktJHcT6T4f58pUO+HSBpbyS1ISH3zDlTsXQh6PcMy4=" # pytorch/vision v0.25.0
  "sha256-b1sjHVFXdNFDbdtXWSM2KisSRE/8IbzJI4rvzYQ4UMg=" # pytorch/audio v2.10.0
  "sha256-i9InbxD5HtfonB/GyF9nQhFmok3jZ73RxGcIciGBGvU=" # magma commit 235aefb7
  "sha256-zeDA8K7k6Sff5Xw/9XmqbCg/dhj9iu095rXuZTdj8PY=" # opencv commit f0888a10
  "sha256-W3eBv7HnoUrNBupXAykv5UsHcYG/o9P55VIddRYWrF8=" # opencv_contrib commit 9a9b173c
]
