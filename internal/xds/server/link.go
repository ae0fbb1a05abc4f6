package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// link is the connection that streams come on. gRPC keeps connections to itself, and shows of them
// what a handshake found out: so a handshake notes the connection there.
type link struct {
	credentials.AuthInfo
	conn    net.Conn // nil: unknown
	peer    string
	since   time.Time
	streams atomic.Int32 // of all services
	retired atomic.Bool

	port    *port // nil: of a gRPC server made by others
	source  netip.Addr
	pending *pendingEntry // nil: of a gRPC server made by others
	aborted atomic.Bool
	written atomic.Int64 // bytes that the kernel has taken
	unread  unread
	release sync.Once
}

// linkOf returns the connection that a stream came on.
func linkOf(ctx context.Context) *link {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return new(link)
	}
	if l, ok := p.AuthInfo.(*link); ok {
		return l
	}
	return &link{AuthInfo: p.AuthInfo, peer: p.Addr.String(), since: time.Now()} // of a gRPC server made by others
}

// lingering is how long a connection stays open after its last stream was ended by us, for the
// stream's status to arrive.
const lingering = 50 * time.Millisecond

// close closes the connection, so that the client makes a new one, which may lead to another
// replica.
func (l *link) close() {
	if l.conn != nil {
		time.AfterFunc(lingering, l.abort)
	}
}

// abort closes the connection at once.
func (l *link) abort() {
	l.aborted.Store(true)
	if l.conn != nil {
		_ = l.conn.Close() // the client may be gone already
	}
}

// admit takes the connection out of those that may be dropped for newer ones.
func (l *link) admit() { l.pending.remove() }

// begin counts a call on the connection, and end takes it back. gRPC holds no message of a
// connection without calls.
func (l *link) begin() { l.streams.Add(1) }

func (l *link) end() (last bool) {
	if last = l.streams.Add(-1) == 0; last && l.port != nil {
		l.port.unread.forget(l)
	}
	return last
}

// decoded notes that a message of that many bytes was decoded.
func (l *link) decoded(bytes int) {
	if l.port != nil {
		l.port.unread.credit(l, bytes+messageHeader)
	}
}

// messageHeader is the length of what precedes a message in gRPC.
const messageHeader = 5

// TLS returns the state of the connection, nil for one in plain text. internal/identity/authenticate finds
// it here.
func (l *link) TLS() *tls.ConnectionState {
	info, secure := l.AuthInfo.(credentials.TLSInfo)
	if !secure {
		return nil
	}
	return &info.State
}

// secure reports whether the connection has TLS.
func (l *link) secure() bool {
	_, ok := l.AuthInfo.(credentials.TLSInfo)
	return ok
}

// identities returns the URIs of the client's certificate.
func (l *link) identities() (uris []string) {
	if state := l.TLS(); state != nil && len(state.VerifiedChains) > 0 {
		for _, u := range state.VerifiedChains[0][0].URIs {
			uris = append(uris, u.String())
		}
	}
	return uris
}

// linking is credentials that note the connection, and count it as pending from the start of the
// handshake.
type linking struct {
	credentials.TransportCredentials
	port *port
}

// ServerHandshake does what the credentials do, and makes a link of it. The connection that it
// returns is followed.
func (c linking) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	l := &link{peer: raw.RemoteAddr().String(), since: time.Now(), port: c.port, source: sourceOf(raw.RemoteAddr()), conn: raw}
	l.pending = c.port.connections.add(l.source, l.abort)
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		l.pending.remove()
		return nil, nil, err
	}
	l.AuthInfo = info
	return follow(conn, l), l, nil
}

// Clone clones the credentials.
func (c linking) Clone() credentials.TransportCredentials {
	return linking{c.TransportCredentials.Clone(), c.port}
}
