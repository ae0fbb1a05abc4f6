// Package program builds programs of this checkout for tests.
//
// In: the path of a package below the module's root, such as "cmd/pilot-agent". Out: the program,
// in the user's cache directory or as a link in a directory of the test's own. Law: each is linked
// once for all test packages that want it, which wait for each other; and a test that runs a
// program is run again when a source of it has changed: the go command, which knows of no such
// dependency, sees what [Build] reads.
//
// Start with [Into].
package program
