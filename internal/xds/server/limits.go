package server

import "time"

// Limits bound the resources that clients of one port can use. Zero fields have their defaults.
// Each port has its own Limits and its own state, so an overload of one port does not refuse
// clients of another.
//
// PendingPerSource and Pending apply only to connections and calls that are not admitted yet. Such
// connections have not authenticated a client (or, in plain text, have not sent a request). Such
// calls have not delivered their first message. The oldest is dropped to make room for a new one,
// because a real proxy needs milliseconds and an attacker waits.
type Limits struct {
	// PendingPerSource bounds pending connections, and pending calls, of one source address: an
	// IPv4 address or an IPv6 /64. Default 1024, because proxies behind one NAT or load balancer
	// share an address. MESHPILOT_XDS_PENDING_PER_SOURCE.
	PendingPerSource int
	// Pending bounds pending connections, and pending calls, of all source addresses together.
	// Default 4096. MESHPILOT_XDS_PENDING.
	Pending int
	// StreamsPerConnection bounds the concurrent calls of one connection. Default 100.
	StreamsPerConnection int
	// SmallRequest bounds in bytes a message that needs no authentication, and each message of a
	// unary call. Default 1 MiB. MESHPILOT_XDS_SMALL_REQUEST_BYTES.
	SmallRequest int
	// Request bounds in bytes a message of an authenticated client. Default 16 MiB, and at least
	// SmallRequest. The largest come from proxies that reconnect with state: about 100 bytes for
	// each resource, and 60 KB for the node. ISTIO_GPRC_MAXRECVMSGSIZE.
	Request int
	// Unread bounds the bytes that the port holds of messages that have not arrived in full or are
	// not decoded yet. Default 64 MiB, and at least twice the largest message.
	Unread int
	// Handshake bounds the time from accepting a connection to the HTTP/2 preface, TLS included.
	// Default 10 s.
	Handshake time.Duration
	// FirstRequest bounds the time from the start of a call until its first message was read.
	// Default 10 s.
	FirstRequest time.Duration
}

// defaultSmallRequest is the default of Limits.SmallRequest, defaultRequest that of Limits.Request.
const (
	defaultSmallRequest = 1 << 20
	defaultRequest      = 16 << 20
)

// DefaultLimits returns the limits that apply unless others are configured.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

// withDefaults returns l with the default in place of each value that is not positive. Request is
// raised to at least SmallRequest, and Unread to at least two of the largest requests.
func (l Limits) withDefaults() Limits {
	set := func(to *int, value int) {
		if *to <= 0 {
			*to = value
		}
	}
	set(&l.PendingPerSource, 1024)
	set(&l.Pending, 4096)
	set(&l.StreamsPerConnection, 100)
	set(&l.SmallRequest, defaultSmallRequest)
	set(&l.Request, defaultRequest)
	l.Request = max(l.Request, l.SmallRequest)
	set(&l.Unread, 64<<20)
	l.Unread = max(l.Unread, 2*l.Request)
	if l.Handshake <= 0 {
		l.Handshake = 10 * time.Second
	}
	if l.FirstRequest <= 0 {
		l.FirstRequest = 10 * time.Second
	}
	return l
}

// port is the state that protects one port from its clients. Its connections refer to it through
// their link.
type port struct {
	limits      Limits
	connections *pendingSet
	calls       *pendingSet
	unread      *unreadBudget
	// decoding bounds how many messages of other services than ADS are decoded at the same time.
	decoding *gate
}

// newPort returns the state of one port's limits. Limits that are not positive have defaults.
func newPort(l Limits) *port {
	l = l.withDefaults()
	return &port{
		limits:      l,
		connections: newPendingSet(l.PendingPerSource, l.Pending), calls: newPendingSet(l.PendingPerSource, l.Pending),
		unread: newUnreadBudget(l.Unread), decoding: newGate(readingsPerCPU*cpus(), maxWaiting),
	}
}
