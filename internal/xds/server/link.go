package server

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// link is the connection that streams come on. gRPC keeps connections to itself, and shows of them what a handshake found
// out: so a handshake notes the connection there.
type link struct {
	credentials.AuthInfo
	conn    net.Conn // nil: unknown
	peer    string
	since   time.Time
	streams atomic.Int32
	retired atomic.Bool
}

// linkOf gives the connection that a stream came on.
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

// lingering is how long a connection stays open after its last stream was ended by us, for the stream's status to arrive.
const lingering = 50 * time.Millisecond

// close closes the connection, so that the client makes a new one, which may lead to another replica.
func (l *link) close() {
	if l.conn != nil {
		time.AfterFunc(lingering, func() { _ = l.conn.Close() }) // the client may be gone already
	}
}

// TLS gives the state of the connection, nil for one in plain text. Who authenticates callers finds it here.
func (l *link) TLS() *tls.ConnectionState {
	info, secure := l.AuthInfo.(credentials.TLSInfo)
	if !secure {
		return nil
	}
	return &info.State
}

// identities gives the URIs of the client's certificate.
func (l *link) identities() (uris []string) {
	if state := l.TLS(); state != nil && len(state.VerifiedChains) > 0 {
		for _, u := range state.VerifiedChains[0][0].URIs {
			uris = append(uris, u.String())
		}
	}
	return uris
}

// linking is credentials that note the connection.
type linking struct {
	credentials.TransportCredentials
}

// ServerHandshake does what the credentials do, and makes a link of it.
func (c linking) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return conn, &link{AuthInfo: info, conn: raw, peer: raw.RemoteAddr().String(), since: time.Now()}, nil
}

// Clone clones the credentials.
func (c linking) Clone() credentials.TransportCredentials {
	return linking{c.TransportCredentials.Clone()}
}
