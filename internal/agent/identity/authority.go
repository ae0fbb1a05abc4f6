package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
)

const (
	// connectTimeout bounds connecting to one address.
	connectTimeout = 10 * time.Second
	// signTimeout bounds one signing request to one address, with the connection. An authority that
	// passes requests to an external signer waits up to 30 s for it.
	signTimeout = 45 * time.Second
)

// Authority is a client of a certificate authority (istio.v1.auth.IstioCertificateService).
type Authority struct {
	Target controlplane.Target
	// Signer is the signer name of a Kubernetes certificate signing request. If empty, the
	// authority signs itself.
	Signer string
}

// Sign sends a certificate signing request, in PEM, to the addresses in order until one signs. It
// returns the chain unchecked, the leaf first and the root last. If all fail before ctx ends, and
// the target has both a token and a client certificate, it retries without the certificate. If the
// retry fails too, it returns both errors.
func (a Authority) Sign(ctx context.Context, request []byte, lifetime time.Duration) ([]string, error) {
	chain, err := a.signAtAny(ctx, request, lifetime)
	if err == nil || a.Target.Certificate == "" || a.Target.Token == "" || ctx.Err() != nil {
		return chain, err
	}
	a.Target.Certificate, a.Target.Key = "", ""
	chain, retryErr := a.signAtAny(ctx, request, lifetime)
	if retryErr != nil {
		return nil, errors.Join(err, fmt.Errorf("without client certificate: %w", retryErr))
	}
	return chain, nil
}

// signAtAny returns the chain of the first address that signs the request, in the order of the
// target's addresses. If none does, it returns the errors of all, so nil without addresses.
func (a Authority) signAtAny(ctx context.Context, request []byte, lifetime time.Duration) ([]string, error) {
	var errs []error
	for _, address := range a.Target.Addresses {
		chain, err := a.signAt(ctx, address, request, lifetime)
		if err == nil {
			return chain, nil
		}
		errs = append(errs, fmt.Errorf("certificate authority %s: %w", address, err))
	}
	return nil, errors.Join(errs...)
}

// signAt requests a certificate at one address, within signTimeout, and returns its chain or the
// error. It fails after connectTimeout if it cannot connect. The lifetime is sent in whole seconds,
// and a.Signer as metadata if set. It uses a new connection, because the next request is half a day
// away.
func (a Authority) signAt(
	ctx context.Context, address string, request []byte, lifetime time.Duration,
) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	connection, err := a.Target.NewConnection(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	if err := awaitConnection(ctx, connection, connectTimeout); err != nil {
		return nil, err
	}
	in := &securityv1.IstioCertificateRequest{Csr: string(request), ValidityDuration: int64(lifetime / time.Second)}
	if a.Signer != "" {
		in.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"CertSigner": structpb.NewStringValue(a.Signer),
		}}
	}
	client := securityv1.NewIstioCertificateServiceClient(connection)
	out, err := client.CreateCertificate(a.Target.WithMetadata(ctx), in)
	if err != nil {
		return nil, err
	}
	return out.GetCertChain(), nil
}

// awaitConnection connects, and waits until the connection is ready or an attempt has failed, whose
// error the next call on the connection returns. It returns an error if neither is so within the
// timeout.
func awaitConnection(ctx context.Context, c *grpc.ClientConn, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.Connect()
	for {
		state := c.GetState()
		if state == connectivity.Ready || state == connectivity.TransientFailure {
			return nil
		}
		if !c.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection within %v: %w", timeout, ctx.Err())
		}
	}
}
