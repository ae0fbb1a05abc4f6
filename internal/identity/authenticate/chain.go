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

// Request is what came along with a call.
type Request struct {
	// Peer is where it came from; the zero value if that is unknown.
	Peer netip.Addr
	// TLS is the connection, nil for one in plain text.
	TLS *tls.ConnectionState
	// Header gives the values of a header, or of gRPC metadata, by its name in lower case.
	Header func(name string) []string
}

// Caller is somebody who has proved who it is.
type Caller struct {
	ID spiffe.ID
	// By names the kind of credentials, for logs.
	By string
	// Pod is the pod that a token was made for; the zero value for other credentials and for tokens that are bound to none.
	Pod Pod
	// Cluster is the cluster whose API server vouches for the caller; "" for other credentials.
	Cluster string
	// HasCertificate reports that the caller was identified by a certificate of the mesh, shown to us or to a trusted gateway. Its
	// workload may have been removed since the certificate was signed.
	HasCertificate bool
}

// Pod names a pod of Kubernetes.
type Pod struct{ Namespace, Name, UID string }

// Authenticator knows one kind of credentials.
type Authenticator interface {
	// String names the kind.
	String() string
	// Authenticate gives the caller. The error is ErrNoCredentials if the request has none of this kind, and wraps ErrUnavailable if
	// they could not be checked.
	Authenticate(ctx context.Context, r Request) (Caller, error)
}

var (
	// ErrNoCredentials says that a request has no credentials of a kind.
	ErrNoCredentials = errors.New("no credentials")
	// ErrUnavailable says that credentials could not be checked now. The caller is not authenticated, and may try again.
	ErrUnavailable = errors.New("credentials cannot be checked now")
)

// Chain tries its members in their order.
type Chain []Authenticator

// Authenticate gives the first caller that a member vouches for. The error says for each member that found credentials what is
// wrong with them: it is for logs, not for who sent them. It wraps ErrUnavailable if one of them could not tell.
func (c Chain) Authenticate(ctx context.Context, r Request) (Caller, error) {
	var wrong []error
	for _, a := range c {
		caller, err := a.Authenticate(ctx, r)
		switch {
		case err == nil && !caller.ID.IsZero():
			caller.By = a.String()
			return caller, nil
		case err == nil:
			wrong = append(wrong, fmt.Errorf("%s: nobody is named", a))
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
	if _, err := bearer(r); err == nil { // whoever looks for what is wrong with a token should not be told that there is none
		return Caller{}, fmt.Errorf("%w but a token that is of no issuer known here", ErrNoCredentials)
	}
	return Caller{}, ErrNoCredentials
}

// TrustDomains gives the mesh's own trust domain, and behind it those whose identities are its own too.
type TrustDomains func() []string

// own gives the mesh's trust domain.
func (t TrustDomains) own() string { return t()[0] }

// maxToken bounds tokens: that of a Kubernetes service account has about 1 KB.
const maxToken = 16 << 10

// bearer gives the token of a request (RFC 6750, 2.1). Two of them leave open which one is meant.
func bearer(r Request) (string, error) {
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
		return "", fmt.Errorf("%d tokens", len(tokens))
	case len(tokens[0]) > maxToken:
		return "", fmt.Errorf("a token of %d bytes: more than %d", len(tokens[0]), maxToken)
	}
	return tokens[0], nil
}
