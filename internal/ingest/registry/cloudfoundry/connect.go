package cloudfoundry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/clienttls"
)

// pingInterval is the interval of the client's keepalive. After two unanswered pings, it closes the
// connection.
const pingInterval = 5 * time.Second

// connectTimeout limits a connection attempt, and then how long the server may take to process
// subscriptions.
const connectTimeout = 5 * time.Second

// connect connects to one of the servers; the end of ctx ends the attempts. The connection does not
// reconnect by itself, because credentials are read again for the next one. It returns an error if
// no server accepts the connection or a file of the settings cannot be used. onClose is called when
// the connection is lost or closed, onError for errors of subscriptions, both in other goroutines.
func (s Settings) connect(ctx context.Context, onClose func(error), onError func(error)) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("meshpilot"), nats.NoReconnect(), nats.Timeout(connectTimeout), nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2), nats.SetCustomDialer(dialer{ctx}),
		nats.ClosedHandler(func(c *nats.Conn) { onClose(c.LastError()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { onError(err) }),
	}
	credentials, err := s.credentials()
	if err != nil {
		return nil, err
	}
	if credentials != nil {
		options = append(options, credentials)
	}
	security, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	if security != nil {
		options = append(options, nats.Secure(security))
	}
	conn, err := nats.Connect(strings.Join(s.Servers, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", clienttls.WithoutClientPort(err))
	}
	return conn, nil
}

// dialer stops connection attempts when its context ends.
type dialer struct{ context.Context }

// Dial opens a connection that ends its attempt with the context or after connectTimeout.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: connectTimeout}).DialContext(d.Context, network, address)
}

// credentials returns the option for the content of CredentialsFile, or nil without a file. A file
// with a NATS JWT is read again at each connection. Any other file must have one line,
// USER:PASSWORD or a token, which is read once. It returns an error if the file is unreadable or of
// another form; the error never contains the content.
func (s Settings) credentials() (nats.Option, error) {
	if s.CredentialsFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(s.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("--cloudFoundryCredentialsFile: %w", err)
	}
	if bytes.Contains(content, []byte("BEGIN NATS USER JWT")) {
		return nats.UserCredentials(s.CredentialsFile), nil
	}
	text := strings.TrimSpace(string(content))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("--cloudFoundryCredentialsFile: want user:password or a token in one line, or a .creds file")
	}
	if user, password, found := strings.Cut(text, ":"); found {
		return nats.UserInfo(user, password), nil
	}
	return nats.Token(text), nil
}

// tlsConfig returns the TLS configuration of a connection, or nil if no TLS setting is set. In that
// case servers with the scheme "tls" are verified against the system's roots. It returns an error
// if the CA file is unusable.
func (s Settings) tlsConfig() (*tls.Config, error) {
	if s.Files == (clienttls.Files{}) {
		return nil, nil
	}
	return s.TLSConfig(flagPrefix)
}
