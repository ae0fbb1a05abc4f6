// Package render executes the injection templates: Go templates whose output is the YAML of a part
// of a pod, with the functions that Istio's templates use.
//
// Inputs: the text of a template and the data of one pod. Output: YAML.
//
// Invariants: a value of the pod can fill a YAML scalar but never end it. Without this check an
// annotation with a line break could add a container. Every action that prints a value of the pod
// is followed by a check that knows its position in the YAML. Inside quotes the value is escaped;
// elsewhere it must be valid in a plain scalar, otherwise the execution fails. Values that the
// operator controls (values, mesh configuration, the template itself) are not checked.
//
// Start with [Parse] in template.go. method_calls.go replaces method calls by calls of a function,
// which methods.go contains. taint.go finds the actions to check, position.go tracks the position
// in the YAML, and scalar.go is the check.
package render
