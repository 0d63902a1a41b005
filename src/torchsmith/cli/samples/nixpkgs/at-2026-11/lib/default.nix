import ../../lib
