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

// link is the connection of streams. gRPC does not expose connections, but it exposes the result of
// a handshake. So the handshake records the connection there.
type link struct {
	credentials.AuthInfo
	conn    net.Conn // nil if unknown
	peer    string
	since   time.Time
	streams atomic.Int32 // of all services
	retired atomic.Bool

	port    *port // nil on a gRPC server that was not created with ServerOptions
	source  netip.Addr
	pending *pendingEntry // nil on a gRPC server that was not created with ServerOptions
	aborted atomic.Bool
	written atomic.Int64 // bytes that the kernel has accepted
	unread  unread
	// readingSince is when the read of the connection that is under way began, in nanoseconds since
	// 1970, or 0. receivers is the number of streams whose next message is being received, and
	// receiversSince when it became zero or positive, 0 before the first. gRPC lets the client send
	// no more than a part of a message that is not being received.
	readingSince, receiversSince atomic.Int64
	receivers                    atomic.Int32
	release                      sync.Once
}

// linkOf returns the link of the call's connection. On a gRPC server that was not created with
// ServerOptions it returns a new link at each call, without a connection, port and limits.
func linkOf(ctx context.Context) *link {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return new(link)
	}
	if l, ok := p.AuthInfo.(*link); ok {
		return l
	}
	return &link{AuthInfo: p.AuthInfo, peer: p.Addr.String(), since: time.Now()} // not created with ServerOptions
}

// lingering is how long a connection stays open after the server ended its last stream, so that the
// stream's status arrives.
const lingering = 50 * time.Millisecond

// close closes the connection after lingering. It does not wait. The client then opens a new
// connection, possibly to another replica. Without a connection it does nothing.
func (l *link) close() {
	if l.conn != nil {
		time.AfterFunc(lingering, l.abort)
	}
}

// abort closes the connection at once. It marks the connection as aborted; an error of closing is
// ignored.
func (l *link) abort() {
	l.aborted.Store(true)
	if l.conn != nil {
		_ = l.conn.Close() // the client may have closed it already
	}
}

// markAdmitted marks the connection as admitted, so that newer ones no longer displace it.
func (l *link) markAdmitted() { l.pending.remove() }

// beginCall increments the number of calls on the connection.
func (l *link) beginCall() { l.streams.Add(1) }

// endCall decrements the number of calls on the connection and reports whether none is left. Then
// gRPC holds no message of the connection, so all of its unread bytes are credited.
func (l *link) endCall() (last bool) {
	if last = l.streams.Add(-1) == 0; last && l.port != nil {
		l.port.unread.creditAll(l)
	}
	return last
}

// beginRead records that the client is waited for from now on, and returns the time.
func (l *link) beginRead() time.Time {
	now := time.Now()
	l.readingSince.Store(now.UnixNano())
	return now
}

// endRead records that the read that began then has returned, and returns how long it took.
func (l *link) endRead(began time.Time) time.Duration {
	l.readingSince.Store(0)
	return time.Since(began)
}

// beginReceive records that the next message of a stream on the connection is being received, until
// endReceive.
func (l *link) beginReceive() {
	if l.receivers.Add(1) == 1 {
		l.receiversSince.Store(time.Now().UnixNano())
	}
}

// endReceive records that the message of a stream was received, or that receiving it failed.
func (l *link) endReceive() {
	if l.receivers.Add(-1) == 0 {
		l.receiversSince.Store(time.Now().UnixNano())
	}
}

// isReceiving reports whether a message of any stream on the connection is being received, and
// returns since when that is so.
func (l *link) isReceiving() (since time.Time, ok bool) {
	changed := l.receiversSince.Load()
	if changed == 0 {
		return l.since, false
	}
	return time.Unix(0, changed), l.receivers.Load() > 0
}

// markReceived records that a message of that many bytes has arrived in full, and may wait for a
// place to be decoded. It does nothing on a link without a port.
func (l *link) markReceived(bytes int) {
	if l.port != nil {
		l.port.unread.markArrived(l, bytes+messageHeader)
	}
}

// creditDecoded credits a decoded message of that many bytes, and its header, to the port's unread
// budget. It does nothing on a link without a port.
func (l *link) creditDecoded(bytes int) {
	if l.port != nil {
		l.port.unread.credit(l, bytes+messageHeader)
	}
}

// messageHeader is the length of the header of a message in gRPC.
const messageHeader = 5

// TLS returns the TLS state of the connection, or nil for plain text.
// internal/identity/authenticate uses it.
func (l *link) TLS() *tls.ConnectionState {
	info, secure := l.AuthInfo.(credentials.TLSInfo)
	if !secure {
		return nil
	}
	return &info.State
}

// usesTLS reports whether the connection has TLS.
func (l *link) usesTLS() bool {
	_, ok := l.AuthInfo.(credentials.TLSInfo)
	return ok
}

// identities returns the URIs of the client's certificate, or nil if it presented none that was
// verified.
func (l *link) identities() (uris []string) {
	if state := l.TLS(); state != nil && len(state.VerifiedChains) > 0 {
		for _, u := range state.VerifiedChains[0][0].URIs {
			uris = append(uris, u.String())
		}
	}
	return uris
}

// linkCredentials wraps credentials. It records the connection in the handshake's result, and adds
// it to the pending connections when the handshake starts.
type linkCredentials struct {
	credentials.TransportCredentials
	port *port
}

// ServerHandshake runs the handshake of the wrapped credentials and returns a link as AuthInfo, and
// a connection that counts bytes (trackConnection). From before the handshake until it is admitted,
// newer connections may displace it (pendingSet). It returns the handshake's error, and then
// nothing else.
func (c linkCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	l := &link{
		peer:   raw.RemoteAddr().String(),
		since:  time.Now(),
		port:   c.port,
		source: sourceOf(raw.RemoteAddr()),
		conn:   raw,
	}
	l.pending = c.port.connections.add(l.source, l.abort)
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		l.pending.remove()
		return nil, nil, err
	}
	l.AuthInfo = info
	return trackConnection(conn, l), l, nil
}

// Clone clones the credentials.
func (c linkCredentials) Clone() credentials.TransportCredentials {
	return linkCredentials{c.TransportCredentials.Clone(), c.port}
}
