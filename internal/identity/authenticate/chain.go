package authenticate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Request holds the credentials of a call.
type Request struct {
	// Peer is the client's address, or the zero value if it is unknown.
	Peer netip.Addr
	// TLS is the connection state, or nil for plain text.
	TLS *tls.ConnectionState
	// Header returns the values of an HTTP header or gRPC metadata key, by its name in lower case.
	Header func(name string) []string
}

// Caller is an authenticated client.
type Caller struct {
	ID spiffe.ID
	// By is the kind of credentials, for logs.
	By string
	// Pod is the pod to which the token is bound; the zero value for unbound tokens and other
	// credentials.
	Pod Pod
	// Cluster is the cluster whose API server verified the token, or "" for other credentials.
	Cluster string
	// HasCertificate is true if the caller was identified by a certificate of the mesh, presented
	// to us or to a trusted gateway. Its workload may have been removed since the certificate was
	// signed.
	HasCertificate bool
}

// Pod identifies a Kubernetes pod.
type Pod struct{ Namespace, Name, UID string }

// Authenticator checks one kind of credentials.
type Authenticator interface {
	// String returns the kind of credentials, for logs.
	String() string
	// Authenticate returns the caller. The error is ErrNoCredentials if the request has no
	// credentials of this kind, and wraps ErrUnavailable if they could not be checked.
	Authenticate(ctx context.Context, r Request) (Caller, error)
}

var (
	// ErrNoCredentials means that the request has no credentials of the kind.
	ErrNoCredentials = errors.New("no credentials")
	// ErrUnavailable means that credentials could not be checked now. The caller is not
	// authenticated and may retry.
	ErrUnavailable = errors.New("credentials cannot be checked now")
)

// Chain is a list of authenticators in order of preference.
type Chain []Authenticator

// Authenticate returns the caller, with By set, from the first member that returns an ID. Otherwise
// the error joins the errors of all members with invalid credentials; it wraps ErrUnavailable if
// one of them could not check. It wraps ErrNoCredentials if no member found any. The error is for
// logs and must not be sent to the client.
func (c Chain) Authenticate(ctx context.Context, r Request) (Caller, error) {
	var wrong []error
	for _, a := range c {
		caller, err := a.Authenticate(ctx, r)
		switch {
		case err == nil && !caller.ID.IsZero():
			caller.By = a.String()
			return caller, nil
		case err == nil:
			wrong = append(wrong, fmt.Errorf("%s: the credentials name no identity", a))
		case !errors.Is(err, ErrNoCredentials):
			wrong = append(wrong, fmt.Errorf("%s: %w", a, err))
		}
	}
	if len(wrong) > 0 {
		return Caller{}, errors.Join(wrong...)
	}
	if r.Header == nil {
		return Caller{}, ErrNoCredentials
	}
	if _, err := bearerToken(r); err == nil { // distinguish an unknown issuer from a missing token
		return Caller{}, fmt.Errorf("%w except a token of an unknown issuer", ErrNoCredentials)
	}
	return Caller{}, ErrNoCredentials
}

// TrustDomains returns the mesh's trust domain, followed by its aliases.
type TrustDomains func() []string

// current returns the mesh's trust domain, which precedes its aliases. The list must not be empty.
func (t TrustDomains) current() string { return t()[0] }

// maxTokenBytes is the maximum size of a token. One of a Kubernetes service account has about 1 KB.
const maxTokenBytes = 16 << 10

// bearerToken returns the bearer token of the request (RFC 6750, 2.1). It returns ErrNoCredentials
// if there is none or it is empty, and an error for several tokens or one of more than
// maxTokenBytes. Other schemes are ignored. The scheme may be in any case; r.Header must be set.
func bearerToken(r Request) (string, error) {
	const scheme = "bearer "
	var tokens []string
	for _, v := range r.Header("authorization") {
		if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
			tokens = append(tokens, v[len(scheme):])
		}
	}
	switch {
	case len(tokens) == 0:
		return "", ErrNoCredentials
	case len(tokens) > 1:
		return "", fmt.Errorf("%d bearer tokens, want one", len(tokens))
	case len(tokens[0]) > maxTokenBytes:
		return "", fmt.Errorf("the token has %d bytes, more than %d", len(tokens[0]), maxTokenBytes)
	}
	return tokens[0], nil
}
