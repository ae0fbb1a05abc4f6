// Package render runs the templates that say what is injected: Go templates that print the YAML of a part of a pod, with the
// functions that templates of Istio use.
//
// In: the text of a template, and the data of one pod. Out: YAML. Law: what comes from the pod can fill a scalar, and never end
// one. A template is text that writes text, so an annotation with a line break in it could otherwise add a container. Here
// every action that prints something of the pod's goes through a check that knows where in the YAML it stands: inside of quotes
// it is escaped, elsewhere it must be a value that cannot be taken for syntax, and if it is not, there is no output but an
// error. What the operator wrote (values, mesh configuration, the template itself) is printed as it is.
//
// Start with [Parse] in template.go. taint.go finds the actions to check, position.go follows the YAML, scalar.go is the check.
package render
