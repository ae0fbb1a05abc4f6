// Package pgv validates messages by the rules of protoc-gen-validate that Envoy's API declares for
// its fields.
//
// The input is a message, the output an error that names each violation, as Envoy's own validation
// does. [Validate] reads the rules from the options of the message's descriptor and compiles them
// once per message type (plan.go). scalar.go compiles the rules of single values, range.go the
// rules of numbers and durations. Messages packed in a google.protobuf.Any are not validated.
//
// The errors are the same as the errors of the ValidateAll methods that protoc-gen-validate
// generates. Programs do not call these methods: linking them for all of Envoy's types costs each
// program 9 MB (ADR 46). TestAgreesWithGeneratedCode compares both on every message type;
// TestAllRulesAreKnown fails if Envoy's API starts to use a rule that this package does not
// implement.
package pgv
