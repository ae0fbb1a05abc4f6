// Package golden runs tests whose inputs and expected outputs are text files that people read and
// edit.
//
// In: a glob of txtar files, and a function from the inputs of one to its outputs. Out: a subtest
// for each file. Law: one file is one case and shows one thing; its first lines say which. Every
// section of a file is either read as input or compared as output; a section that is neither fails
// the case.
//
//	go test ./internal/translate/cluster -update    # rewrites the expected sections; read the diff before committing
//
// Start with [Run] and [Case] in golden.go; render.go makes YAML of protobuf messages and xDS
// resources.
package golden
