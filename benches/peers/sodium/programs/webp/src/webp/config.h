/* Tells libwebp that a script has configured it, without any vector instructions: it has such code
   for x86_64 and none for WebAssembly. */
