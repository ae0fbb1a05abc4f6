package ca

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Service serves istio.v1.auth.IstioCertificateService.
type Service struct {
	security.UnimplementedIstioCertificateServiceServer

	o     ServiceOptions
	turns *turns
}

var _ security.IstioCertificateServiceServer = (*Service)(nil)

// ServiceOptions are the parts and settings of a Service.
type ServiceOptions struct {
	// Callers says who calls.
	Callers authenticate.Chain
	Issuer  Issuer
	// TrustDomain gives the one that certificates are issued in.
	TrustDomain func() string
	// Impersonation says whether a caller may have a certificate for another account; nil: nobody may.
	Impersonation Impersonation
	// Member returns an error if the service account of a caller with a certificate has no workload any more; it wraps
	// authenticate.ErrUnavailable if that is not known. Without this check a removed workload could renew its certificate for ever.
	// If nil, no such check is made. Tokens are not checked: their issuers vouch for the workload.
	Member func(a spiffe.Account) error
	// Rate bounds the certificates of one identity a second, in the long run, and Burst how many it may have at once: all
	// replicas of a deployment have one identity, and may start at once. 0: 50 and 1000.
	Rate  float64
	Burst int

	Metrics Metrics // nil: none
	Log     *slog.Logger
	Now     func() time.Time
}

// Impersonation decides whether a caller may have a certificate for another account.
type Impersonation interface {
	// Allow gives nil if it may.
	Allow(ctx context.Context, caller authenticate.Caller, account spiffe.Account) error
}

// Metrics is told what becomes of requests.
type Metrics interface {
	// Requested counts requests, Unauthenticated those of nobody known, Issued the good ones, and Refused all others by why.
	Requested()
	Unauthenticated()
	Issued()
	Refused(cause Cause)
}

// CauseRate is of requests that came too fast. Istio has no such limit.
const CauseRate Cause = "RATE_LIMITED"

// CauseIdentity is of callers whose identity is no service account.
const CauseIdentity Cause = "ID_ERROR"

// NewService makes a Service.
func NewService(o ServiceOptions) *Service {
	if o.Rate == 0 {
		o.Rate = 50
	}
	if o.Burst == 0 {
		o.Burst = 1000
	}
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o: o, turns: newTurns(o.Rate, o.Burst, o.Now)}
}

// Register adds the service to a gRPC server. Callers are authenticated before their request is read.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	desc := security.IstioCertificateService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "CreateCertificate" {
			desc.Methods[i].Handler = createCertificate
		}
	}
	g.RegisterService(&desc, s)
}

// createCertificate serves CreateCertificate in place of the generated handler, which decodes the request first. Interceptors, which
// recover panics and count calls, are given no request.
//
//nolint:revive // the order of the parameters is gRPC's
func createCertificate(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s, ok := srv.(*Service)
	if !ok {
		return nil, status.Error(codes.Internal, "not the certificate service")
	}
	handle := func(ctx context.Context, _ any) (any, error) {
		s.o.Metrics.Requested()
		caller, err := s.authenticate(ctx)
		if err != nil {
			return nil, err
		}
		r := new(security.IstioCertificateRequest)
		if err := decode(r); err != nil {
			return nil, err
		}
		return s.create(ctx, caller, r)
	}
	if interceptor == nil {
		return handle(ctx, nil)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: security.IstioCertificateService_CreateCertificate_FullMethodName}
	return interceptor(ctx, nil, info, handle)
}

// The fields of a request's metadata that mean something, as Istio's clients write them.
const (
	signerField        = "CertSigner"
	impersonationField = "ImpersonatedIdentity"
)

var (
	errWhoAreYou    = status.Error(codes.Unauthenticated, "request authenticate failure")
	errNotYou       = status.Error(codes.Unauthenticated, "request impersonation authentication failure")
	errAskLater     = status.Error(codes.Unavailable, "callers cannot be authenticated now")
	errTooOften     = status.Error(codes.ResourceExhausted, "too many certificates for one identity; try again later")
	errRemoved      = status.Error(codes.PermissionDenied, "no workload of this identity is known any more: its certificate is not renewed")
	errNotAnAccount = status.Error(codes.PermissionDenied, "only service accounts are given certificates")
)

// CreateCertificate signs a certificate for the caller. Of the request, the public key, the lifetime, and the name of the signer count.
func (s *Service) CreateCertificate(ctx context.Context, r *security.IstioCertificateRequest) (*security.IstioCertificateResponse, error) {
	s.o.Metrics.Requested()
	caller, err := s.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, caller, r)
}

// create signs a certificate for an authenticated caller.
func (s *Service) create(ctx context.Context, caller authenticate.Caller, r *security.IstioCertificateRequest) (*security.IstioCertificateResponse, error) {
	account, err := s.account(ctx, caller, r)
	if err != nil {
		return nil, err
	}
	id, err := account.ID()
	if err != nil {
		s.o.Metrics.Refused(CauseIdentity)
		return nil, errNotAnAccount
	}
	if !s.turns.take(id) {
		s.o.Metrics.Refused(CauseRate)
		return nil, errTooOften
	}
	lifetime, err := seconds(r.GetValidityDuration())
	if err != nil {
		s.o.Metrics.Refused(CauseTTL)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	issued, err := s.o.Issuer.Issue(ctx, Request{ID: id, CSR: []byte(r.GetCsr()), Lifetime: lifetime, Signer: field(r, signerField)})
	if err != nil {
		return nil, s.refused(id, err)
	}
	s.o.Metrics.Issued()
	s.o.Log.Debug("certificate signed", "id", id.String(), "serial", issued.Chain[0].SerialNumber.Text(16), "until", issued.Chain[0].NotAfter)
	return response(issued), nil
}

// authenticate returns the caller, or the gRPC status that it is refused with.
func (s *Service) authenticate(ctx context.Context) (authenticate.Caller, error) {
	request := authenticate.FromContext(ctx)
	caller, err := s.o.Callers.Authenticate(ctx, request)
	if err == nil {
		return caller, nil
	}
	s.o.Metrics.Unauthenticated()
	s.o.Log.Warn("certificate request of an unauthenticated caller refused", "peer", request.Peer, "err", err)
	if errors.Is(err, authenticate.ErrUnavailable) {
		return authenticate.Caller{}, errAskLater
	}
	return authenticate.Caller{}, errWhoAreYou
}

// account returns the service account that the certificate is to be for: the caller's own in nearly all cases.
func (s *Service) account(ctx context.Context, caller authenticate.Caller, r *security.IstioCertificateRequest) (account spiffe.Account, err error) {
	request := authenticate.FromContext(ctx)
	if caller, err = s.current(ctx, request, caller); err != nil {
		s.o.Metrics.Refused(CauseIdentity)
		s.o.Log.Warn("certificate not renewed", "peer", request.Peer, "id", caller.ID.String(), "err", err)
		if errors.Is(err, authenticate.ErrUnavailable) {
			return account, errAskLater
		}
		return account, errRemoved
	}
	account, ok := caller.ID.Account()
	if !ok {
		s.o.Metrics.Refused(CauseIdentity)
		s.o.Log.Warn("no certificate for an identity that is no service account", "peer", authenticate.FromContext(ctx).Peer, "id", caller.ID.String())
		return spiffe.Account{}, errNotAnAccount
	}
	if other := field(r, impersonationField); other != "" {
		if account, err = s.impersonated(ctx, caller, other); err != nil {
			s.o.Metrics.Unauthenticated()
			s.o.Log.Warn("no certificate for somebody else", "peer", authenticate.FromContext(ctx).Peer, "caller", caller.ID.String(), "err", err)
			return spiffe.Account{}, errNotYou
		}
	}
	// A caller of a former name of the trust domain is given a certificate of the present one.
	account.TrustDomain = s.o.TrustDomain()
	return account, nil
}

// current returns the caller if its workload is still known, or if it has no certificate yet. A caller whose workload is not known is
// identified by its token instead, if it has one.
func (s *Service) current(ctx context.Context, r authenticate.Request, c authenticate.Caller) (authenticate.Caller, error) {
	account, ok := c.ID.Account()
	if !c.HasCertificate || s.o.Member == nil || !ok {
		return c, nil
	}
	err := s.o.Member(account)
	if err == nil {
		return c, nil
	}
	r.TLS = nil
	if other, otherErr := s.o.Callers.Authenticate(ctx, r); otherErr == nil && !other.HasCertificate {
		return other, nil
	}
	return c, err
}

// impersonated gives the account that a node's proxy asks for in the place of its own.
func (s *Service) impersonated(ctx context.Context, caller authenticate.Caller, other string) (spiffe.Account, error) {
	if s.o.Impersonation == nil {
		return spiffe.Account{}, errors.New("nobody may ask for others: CA_TRUSTED_NODE_ACCOUNTS is empty")
	}
	id, err := spiffe.Parse(other)
	if err != nil {
		return spiffe.Account{}, err
	}
	account, ok := id.Account()
	if !ok || account.TrustDomain != s.o.TrustDomain() {
		return spiffe.Account{}, errors.New("the identity asked for is no service account of this trust domain")
	}
	return account, s.o.Impersonation.Allow(ctx, caller, account)
}

func (s *Service) refused(id spiffe.ID, err error) error {
	var r *Refusal
	if !errors.As(err, &r) {
		r = refuse(CauseSigning, codes.Internal, err)
	}
	s.o.Metrics.Refused(r.Cause)
	s.o.Log.Warn("no certificate was signed", "id", id.String(), "err", r.Err)
	text := r.Err.Error()
	if r.Code == codes.Internal {
		text = "the certificate could not be signed" // what went wrong within is for the log
	}
	return status.Error(r.Code, text)
}

// seconds reads a lifetime that a client asks for. What a Duration cannot hold would come out as something short, or below nothing.
func seconds(n int64) (time.Duration, error) {
	const most = int64(math.MaxInt64 / time.Second)
	switch {
	case n > most:
		return 0, errors.New("the lifetime asked for is too long")
	case n <= 0:
		return 0, nil
	}
	return time.Duration(n) * time.Second, nil
}

// field gives a text of a request's metadata.
func field(r *security.IstioCertificateRequest, name string) string {
	return r.GetMetadata().GetFields()[name].GetStringValue()
}

// response writes certificates as agents of Istio read them: the certificate, what leads to a root, and last the roots. Each has a
// text of its own, but for the roots: an agent takes only the last text for what it is to trust.
func response(i Issued) *security.IstioCertificateResponse {
	r := new(security.IstioCertificateResponse)
	for _, c := range i.Chain {
		r.CertChain = append(r.CertChain, string(EncodeCertificates(c)))
	}
	r.CertChain = append(r.CertChain, string(EncodeCertificates(i.Roots...)))
	return r
}

type noMetrics struct{}

func (noMetrics) Requested()       {}
func (noMetrics) Unauthenticated() {}
func (noMetrics) Issued()          {}
func (noMetrics) Refused(Cause)    {}
