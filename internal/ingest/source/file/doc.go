// Package file is the config source that reads a directory of manifests and watches it.
//
// The input is a tree of *.yaml, *.yml and *.json files with any number of objects each, possibly
// mounted from a ConfigMap. The outputs are batches of events about objects, and the Problems of
// each file. The last good version of an object stays in use until a good version replaces it. A
// broken document, an unreadable file, a partially written file and a vanished directory remove no
// objects; only a deliberate removal does. A batch is the state of the directory at one moment: if
// files are replaced one after another, the changes appear in that order.
//
// Start reading with [Source] in source.go. loop.go waits for changes, scan.go finds what changed,
// tree.go finds the files, manifest.go reads one, and store.go decides which file's object is used
// and builds the batches. Package internal/base/watch implements the file system events.
package file
