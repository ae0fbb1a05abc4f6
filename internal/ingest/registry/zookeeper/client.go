package zookeeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The errors that end a session.
var (
	errExpired        = errors.New("the session expired")
	errAuthentication = errors.New("the servers refused the authentication")
)

// maxPacket limits one answer of a server. A list of 100,000 instances stays below it.
const maxPacket = 64 << 20

// dialTimeout limits a connection attempt, with the TLS handshake.
const dialTimeout = 5 * time.Second

// client is a connection of the library with the parts that it lacks: TLS, names that are resolved
// for each attempt, and an end that interrupts pending reads.
type client struct {
	*zk.Conn
	security *tls.Config // nil without TLS
	name     string      // the name in the server's certificate, or "" for the host of the server
	closed   context.CancelFunc
	events   <-chan zk.Event // closed when the goroutines of the library have ended

	mu   sync.Mutex
	conn net.Conn
	err  error // of the last attempt to connect
}

// connect returns a client that connects in the background, until ctx ends, and passes its events
// to handle. The caller must close it. It returns an error if a file of the TLS settings cannot be
// read, or the library refuses the list of servers.
func (s *Settings) connect(ctx context.Context, logger *slog.Logger, handle func(zk.Event)) (*client, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &client{name: s.ServerName, closed: cancel}
	if s.TLS {
		var err error
		if c.security, err = s.TLSConfig(flagPrefix); err != nil {
			cancel()
			return nil, err
		}
	}
	dial := func(network, address string, _ time.Duration) (net.Conn, error) {
		conn, err := c.dial(ctx, network, address)
		if err != nil {
			c.setLastError(err)
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conn, c.err = conn, fmt.Errorf("%s accepts connections, but does not answer", address) // until it does
		if ctx.Err() != nil {
			_ = conn.Close()
		}
		return &firstAnswer{Conn: conn, address: address, result: c.setLastError}, nil
	}
	conn, events, err := zk.Connect(
		s.Servers,
		s.SessionTimeout,
		zk.WithDialer(dial),
		zk.WithHostProvider(new(servers)),
		zk.WithEventCallback(handle),
		zk.WithLogger(debugLogger{logger}),
		zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxPacket),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	c.Conn, c.events = conn, events
	return c, nil
}

// dial opens a connection to a server, with TLS if that is set. The certificate is verified for the
// configured name, or else for the host of address. It returns an error if this fails or takes
// longer than dialTimeout.
func (c *client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.security == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	config := c.security.Clone()
	if config.ServerName = c.name; config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
}

// close ends the session, so that the servers forget it, and the connection. It interrupts pending
// requests, and returns when the goroutines of the library have ended.
func (c *client) close() {
	c.Conn.Close()
	c.closed()
	c.mu.Lock()
	if c.conn != nil {
		_ = c.conn.Close() // the library may have closed it
	}
	c.mu.Unlock()
	for range c.events { // until it is closed
	}
}

// setLastError sets what lastError returns.
func (c *client) setLastError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// lastError returns the error of the last attempt to connect. It returns nil if that succeeded or
// there was none.
func (c *client) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// authenticate sends the user and the password in AuthFile, and returns the error of the server. It
// does nothing if AuthFile is not set, and returns an error if it cannot be read or has no colon.
// The library sends them again after each reconnection.
func (s *Settings) authenticate(c *client) error {
	if s.AuthFile == "" {
		return nil
	}
	text, err := os.ReadFile(s.AuthFile)
	if err != nil {
		return fmt.Errorf("--zookeeperAuthFile: %w", err)
	}
	text = bytes.TrimSpace(text)
	if !bytes.Contains(text, []byte(":")) {
		return fmt.Errorf("--zookeeperAuthFile %s: want user:password", s.AuthFile)
	}
	return c.AddAuth("digest", text)
}

// servers implements zk.HostProvider. Unlike the library's own, it leaves names to the dialer,
// which resolves them for each attempt and needs them to verify certificates.
type servers struct {
	mu    sync.Mutex
	list  []string
	next  int
	tried int // attempts since the last connection
}

var _ zk.HostProvider = (*servers)(nil)

// Init implements zk.HostProvider. It begins with a random server.
func (s *servers) Init(list []string) error {
	s.list, s.next = list, rand.IntN(len(list))
	return nil
}

// Len returns the number of servers.
func (s *servers) Len() int { return len(s.list) }

// Next returns the next server, and whether all have been tried since the last connection. The
// count of tried servers begins again then.
func (s *servers) Next() (server string, retryStart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, retryStart = s.list[s.next], s.tried >= len(s.list)
	s.next = (s.next + 1) % len(s.list)
	if retryStart {
		s.tried = 0
	}
	s.tried++
	return server, retryStart
}

// Connected records that a connection was opened, which resets the count of servers that were
// tried.
func (s *servers) Connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = 0
}

// debugLogger implements zk.Logger.
type debugLogger struct{ *slog.Logger }

// Printf logs a message of the library at level debug.
func (l debugLogger) Printf(format string, args ...any) {
	l.Debug("ZooKeeper client: " + fmt.Sprintf(format, args...))
}
