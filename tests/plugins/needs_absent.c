/* Whole but for what it needs: a function of a library that is not there when it is loaded.
 * Compiled with ABSENT into that library, without it into the plugin; with no query, as none is reached. */
int absent_function(void);
#ifdef ABSENT
int absent_function(void) { return 1; }
#else
int uses_absent(void);
int uses_absent(void) { return absent_function(); }
#endif
