package mesh

// LostRequestHeader is set by a proxy in the response that it generates if its application did not
// answer a request, for example because it terminated before its callers learned of that. The
// callers' proxies then retry the request on another endpoint. The header never comes from, or
// reaches, an application.
const LostRequestHeader = "x-meshpilot-lost"

// Values of LostRequestHeader.
const (
	// RequestNotSent means that no connection to the application could be established, so it has
	// not seen the request.
	RequestNotSent = "not-sent"
	// RequestNotAnswered means that the application closed the connection instead of answering, and
	// that the request's method is safe, so that it can be repeated (RFC 9110, 9.2.1 and 9.2.2).
	RequestNotAnswered = "not-answered"
)
