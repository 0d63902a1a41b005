// The extension module torch._C, against Python's stable ABI, so that no Python headers are needed.
#include <stddef.h>

typedef struct PyObject PyObject;
typedef ptrdiff_t Py_ssize_t;
typedef struct { const char* name; PyObject* (*call)(PyObject*, PyObject*); int flags; const char* doc; } PyMethodDef;
typedef struct {
  struct { Py_ssize_t refcnt; void* type; PyObject* (*init)(void); Py_ssize_t index; PyObject* copy; } base;
  const char *name, *doc;
  Py_ssize_t size;
  PyMethodDef* methods;
  void *slots, *traverse, *clear, *free;
} PyModuleDef;

extern PyObject* PyModule_Create2(PyModuleDef*, int);
extern PyObject* PyUnicode_FromString(const char*);
extern PyObject* PyFloat_FromDouble(double);
extern long PyLong_AsLong(PyObject*);

extern const char* torch_build_settings(void);
extern double torch_ones_sum(long);

static PyObject* build_settings(PyObject* self, PyObject* none) {
  return PyUnicode_FromString(torch_build_settings());
}
static PyObject* ones_sum(PyObject* self, PyObject* count) {
  return PyFloat_FromDouble(torch_ones_sum(PyLong_AsLong(count)));
}

enum { METH_NOARGS = 4, METH_O = 8, ABI_VERSION = 3 };
static PyMethodDef methods[] = {
    {"build_settings", build_settings, METH_NOARGS, "How this library was compiled."},
    {"ones_sum", ones_sum, METH_O, "The sum of that many ones."},
    {0, 0, 0, 0},
};
static PyModuleDef module = {{1, 0, 0, 0, 0}, "torch._C", 0, -1, methods, 0, 0, 0, 0};

// Runs the kernel once: a CPU without the instructions it was compiled for stops here, as with the real torch.
PyObject* PyInit__C(void) {
  return torch_ones_sum(64) == 64.0 ? PyModule_Create2(&module, ABI_VERSION) : 0;
}
