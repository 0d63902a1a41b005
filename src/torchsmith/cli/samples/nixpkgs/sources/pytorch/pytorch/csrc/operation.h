// What every unit of plain code includes.
#define OPERATION_NAME(number) operation_##number
#define OPERATION(number) OPERATION_NAME(number)
