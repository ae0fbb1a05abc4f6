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

// signTimeout bounds one request to one address.
const signTimeout = 10 * time.Second

// Authority signs certificates over istio.v1.auth.IstioCertificateService.
type Authority struct {
	Target controlplane.Target
	// Signer names the signer of a Kubernetes certificate signing request, "" for the authority's own.
	Signer string
}

// Sign has a request signed, for a certificate of that lifetime. It gives the chain, the leaf first and the root last. The
// addresses are tried in turn.
//
// A certificate of before may be of an authority or a trust domain that is not known any more, and then none is better: the token
// alone says who asks.
func (a Authority) Sign(ctx context.Context, request []byte, lifetime time.Duration) ([]string, error) {
	chain, err := a.sign(ctx, request, lifetime)
	if err == nil || a.Target.Certificate == "" || a.Target.Token == "" || ctx.Err() != nil {
		return chain, err
	}
	a.Target.Certificate, a.Target.Key = "", ""
	chain, again := a.sign(ctx, request, lifetime)
	if again != nil {
		return nil, errors.Join(err, fmt.Errorf("without a certificate: %w", again))
	}
	return chain, nil
}

func (a Authority) sign(ctx context.Context, request []byte, lifetime time.Duration) ([]string, error) {
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

// signAt asks over a connection of its own: the next request is half a day away.
func (a Authority) signAt(ctx context.Context, address string, request []byte, lifetime time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	connection, err := a.Target.Connect(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	in := &securityv1.IstioCertificateRequest{Csr: string(request), ValidityDuration: int64(lifetime / time.Second)}
	if a.Signer != "" {
		in.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"CertSigner": structpb.NewStringValue(a.Signer)}}
	}
	out, err := securityv1.NewIstioCertificateServiceClient(connection).CreateCertificate(a.Target.Context(ctx), in)
	if err != nil {
		return nil, err
	}
	return out.GetCertChain(), nil
}
