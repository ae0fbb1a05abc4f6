package mesh

// LostRequestHeader is the header of a proxy's own answer to a request that the application beside it did not answer, as when
// it has ended and its callers do not know yet. Their proxies then try it elsewhere. It never comes from, or gets to, an
// application.
const LostRequestHeader = "x-meshpilot-lost"

// Values of LostRequestHeader.
const (
	// RequestNotSent says that no connection to the application could be made: it has seen nothing of the request.
	RequestNotSent = "not-sent"
	// RequestNotAnswered says that the application closed the connection instead of answering, and that the method of the
	// request is a safe one, which may be repeated (RFC 9110, 9.2.1 and 9.2.2).
	RequestNotAnswered = "not-answered"
)
