// Package file is the config source that reads a directory of manifests and follows its changes.
//
// In: a tree of *.yaml, *.yml and *.json files, many objects in each, plain or mounted from a ConfigMap. Out: batches of
// events about objects, with the Problems of each file beside them.
// Law: what was once good stays until something as good takes its place. A broken document, an unreadable file, a file
// half written and a directory that vanished take no object away; only what a person removed is removed. A batch is the state of
// the directory at one moment: changes that replace one file after another appear in that order.
//
// Start with [Source] in source.go. loop.go waits for changes, look.go finds out what they are, tree.go finds the files,
// manifest.go reads one, store.go knows which object of which file counts and makes the batches. Sub-package watch is what
// knows about file systems.
package file
