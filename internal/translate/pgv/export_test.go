package pgv

import "google.golang.org/protobuf/reflect/protoreflect"

// UnknownRules returns the rules of a message type that are not implemented.
func UnknownRules(d protoreflect.MessageDescriptor) []string { return planFor(d).unknown }
