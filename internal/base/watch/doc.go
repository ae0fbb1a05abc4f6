// Package watch reports changes of files: files replaced by rename, written in place in several
// steps, or reached through symbolic links that are switched, as the kubelet does with mounted
// ConfigMaps and Secrets.
//
// [File] calls a function with the content of a file whenever it changes. For directory trees there
// are events of a set of directories ([Dirs]), debouncing ([Burst]), and the names that determine
// to which file a path resolves ([Names]).
//
// Invariants: directories are watched, never files, because a watch on a file stays with the
// replaced one. Nothing relies on events alone: everything is also polled.
//
// Start with [File] in file.go.
package watch
