package registry

// Forker is a Converter whose state can be copied.
type Forker interface {
	Converter
	// Fork returns a Converter with the same state that changes independently, and that no other
	// part of the control plane observes. Objects and results are shared.
	Fork() Converter
}

// Renewer is a Converter whose state is too intricate to be copied. It is created once more, and
// fed with the objects that are in use.
type Renewer interface {
	Converter
	// Renew returns a Converter with the same options, without objects and without callbacks.
	Renew() Converter
}
