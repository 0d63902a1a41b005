// One of several units of plain code: in PyTorch there are a thousand.
#include "operation.h"

float OPERATION(NUMBER)(float value) { return value * (NUMBER + 1.0f); }
