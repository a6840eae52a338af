// NOLINTNEXTLINE(readability-identifier-naming): CPython's name.
extern "C" int Py_IsInitialized() { return 1; }
