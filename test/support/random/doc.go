// Package random makes objects that a user might write: any fields of the API together, with values that mean something.
//
// In: a source of randomness, words for fields, and what is wrong with an object. Out: messages, and messages made valid.
// Law: the same seed gives the same messages. No field of the API is out of reach.
//
// Start with [Source.Fill] in fill.go; [Source.Mend] in mend.go makes what is invalid valid, by what the product says of it.
package random
