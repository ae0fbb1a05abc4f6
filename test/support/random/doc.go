// Package random makes objects that a user might write: any fields of the API together, with values
// that mean something.
//
// In: a source of randomness, words for fields, and validation errors of an object. Out: messages,
// and messages made valid. Law: the same seed produces the same messages. No field of the API is
// out of reach.
//
// Start with [Source.Fill] in fill.go; [Source.Mend] in mend.go makes an invalid message valid,
// guided by the product's Problems.
package random
