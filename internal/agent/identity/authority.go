package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/controlplane"
)

// signTimeout bounds one signing request to one address.
const signTimeout = 10 * time.Second

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
// target's addresses. If none does, it returns the errors of all.
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
// error. The lifetime is sent in whole seconds, and a.Signer as metadata if set. It uses a new
// connection, because the next request is half a day away.
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
