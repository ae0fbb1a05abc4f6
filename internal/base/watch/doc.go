// Package watch tells when files change, on file systems as they are: files replaced by rename, written in place a piece
// at a time, or reached through symbolic links that are switched over (as kubelet does with mounted ConfigMaps and Secrets).
//
// In: paths. Out: the content of a file whenever it is another ([File]); or, for those who watch whole trees, events of a
// set of directories ([Dirs]), when a burst of them is over ([Burst]), and which names decide where a path leads ([Names]).
// Law: directories are watched, never files, for a watch on a file stays with what was replaced. Nothing relies on events
// alone: everything is looked at again from time to time.
//
// Start with [File] in file.go.
package watch
