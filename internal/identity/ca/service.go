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

// Service implements istio.v1.auth.IstioCertificateService.
type Service struct {
	security.UnimplementedIstioCertificateServiceServer

	o       ServiceOptions
	limiter *identityLimiter
}

var _ security.IstioCertificateServiceServer = (*Service)(nil)

// ServiceOptions are the dependencies and settings of a Service.
type ServiceOptions struct {
	// Authenticators identify the caller of a request.
	Authenticators authenticate.Chain
	Issuer         Issuer
	// TrustDomain returns the trust domain of issued certificates.
	TrustDomain func() string
	// Impersonation authorizes requests for another account. If nil, they are refused.
	Impersonation Impersonation
	// CheckMember returns an error if the service account of a caller with a certificate has no
	// workload any more; it wraps authenticate.ErrUnavailable if that is not known. Without this
	// check a removed workload could renew its certificate indefinitely. If nil, no such check is
	// made. Tokens are not checked: their issuers vouch for the workload.
	CheckMember func(a spiffe.Account) error
	// Rate limits the certificates per second of one identity (default 50), with bursts of Burst
	// (default 1000). All replicas of a deployment share one identity and may start at once.
	Rate  float64
	Burst int

	Metrics Metrics // If nil, nothing is counted.
	Log     *slog.Logger
	Now     func() time.Time
}

// Impersonation decides whether a caller may have a certificate for another account.
type Impersonation interface {
	// Authorize returns nil if caller may have a certificate for account, and otherwise the reason.
	Authorize(ctx context.Context, caller authenticate.Caller, account spiffe.Account) error
}

// Metrics counts requests and their results.
type Metrics interface {
	// RequestReceived counts all requests. AuthenticationFailed counts callers that are not
	// authenticated or may not impersonate, CertificateIssued the successful requests, and
	// RequestRefused all others by cause.
	RequestReceived()
	AuthenticationFailed()
	CertificateIssued()
	RequestRefused(cause Cause)
}

// CauseRate is the cause of requests over the rate limit of their identity. Istio has no such
// limit.
const CauseRate Cause = "RATE_LIMITED"

// CauseIdentity is the cause of requests whose identity is not a service account or not a current
// workload.
const CauseIdentity Cause = "ID_ERROR"

// NewService returns a Service with defaults for the options that are zero: 50 requests per second
// and identity (Rate) with bursts of 1000, no metrics, no log and the system's clock.
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
	return &Service{o: o, limiter: newIdentityLimiter(o.Rate, o.Burst, o.Now)}
}

// Register adds the service to a gRPC server, with a handler of CreateCertificate that
// authenticates the caller before it decodes the request.
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

// createCertificate is the gRPC handler of CreateCertificate, which authenticates the caller before
// it decodes the request; the generated handler decodes first. Interceptors, which recover panics
// and count calls, get a nil request.
//
//nolint:revive // the order of the parameters is gRPC's
func createCertificate(
	srv any,
	ctx context.Context,
	decode func(any) error,
	interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	s, ok := srv.(*Service)
	if !ok {
		return nil, status.Error(codes.Internal, "not the certificate service")
	}
	handle := func(ctx context.Context, _ any) (any, error) {
		s.o.Metrics.RequestReceived()
		caller, err := s.authenticate(ctx)
		if err != nil {
			return nil, err
		}
		r := new(security.IstioCertificateRequest)
		if err := decode(r); err != nil {
			return nil, err
		}
		return s.issueCertificate(ctx, caller, r)
	}
	if interceptor == nil {
		return handle(ctx, nil)
	}
	info := &grpc.UnaryServerInfo{
		Server:     srv,
		FullMethod: security.IstioCertificateService_CreateCertificate_FullMethodName,
	}
	return interceptor(ctx, nil, info, handle)
}

// Keys of the request metadata, as Istio's clients write them.
const (
	signerField        = "CertSigner"
	impersonationField = "ImpersonatedIdentity"
)

var (
	errUnauthenticated     = status.Error(codes.Unauthenticated, "request authenticate failure")
	errImpersonationDenied = status.Error(codes.Unauthenticated, "request impersonation authentication failure")
	errAuthUnavailable     = status.Error(codes.Unavailable, "the caller cannot be authenticated now; retry later")
	errRateLimited         = status.Error(
		codes.ResourceExhausted,
		"certificate rate limit of this identity exceeded; retry later",
	)
	errRemoved = status.Error(
		codes.PermissionDenied,
		"the workload of this identity was removed: its certificate is not renewed",
	)
	errNotAnAccount = status.Error(codes.PermissionDenied, "certificates are only issued for service accounts")
)

// CreateCertificate signs a certificate for the caller. It uses only the public key of the CSR, the
// requested lifetime, and the metadata of signer and impersonated identity. The error is a gRPC
// status.
func (s *Service) CreateCertificate(
	ctx context.Context,
	r *security.IstioCertificateRequest,
) (*security.IstioCertificateResponse, error) {
	s.o.Metrics.RequestReceived()
	caller, err := s.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	return s.issueCertificate(ctx, caller, r)
}

// issueCertificate signs a certificate for an authenticated caller. It refuses callers that
// accountFor refuses, requests over the rate limit, and invalid lifetimes; the Issuer may refuse
// others. Each refusal is counted. The error is a gRPC status.
func (s *Service) issueCertificate(
	ctx context.Context,
	caller authenticate.Caller,
	r *security.IstioCertificateRequest,
) (*security.IstioCertificateResponse, error) {
	account, err := s.accountFor(ctx, caller, r)
	if err != nil {
		return nil, err
	}
	id, err := account.ID()
	if err != nil {
		s.o.Metrics.RequestRefused(CauseIdentity)
		return nil, errNotAnAccount
	}
	if !s.limiter.Allow(id) {
		s.o.Metrics.RequestRefused(CauseRate)
		return nil, errRateLimited
	}
	lifetime, err := parseLifetime(r.GetValidityDuration())
	if err != nil {
		s.o.Metrics.RequestRefused(CauseTTL)
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	issued, err := s.o.Issuer.Issue(
		ctx,
		Request{ID: id, CSR: []byte(r.GetCsr()), Lifetime: lifetime, Signer: metadataField(r, signerField)},
	)
	if err != nil {
		return nil, s.refusalStatus(id, err)
	}
	s.o.Metrics.CertificateIssued()
	s.o.Log.Debug(
		"certificate signed",
		"id", id.String(),
		"serial", issued.Chain[0].SerialNumber.Text(16),
		"until", issued.Chain[0].NotAfter,
	)
	return newResponse(issued), nil
}

// refusalStatus counts and logs err, and returns its gRPC status for the client. An error that is
// no IssueError has the code Internal. The text of errors with this code is only logged.
func (s *Service) refusalStatus(id spiffe.ID, err error) error {
	var r *IssueError
	if !errors.As(err, &r) {
		r = newIssueError(CauseSigning, codes.Internal, err)
	}
	s.o.Metrics.RequestRefused(r.Cause)
	s.o.Log.Warn("certificate request refused", "id", id.String(), "err", r.Err)
	text := r.Err.Error()
	if r.Code == codes.Internal {
		text = "the certificate could not be signed" // the details are only logged
	}
	return status.Error(r.Code, text)
}

// parseLifetime returns a lifetime of n seconds, or 0 for n <= 0. It returns an error if the value
// overflows time.Duration.
func parseLifetime(n int64) (time.Duration, error) {
	const maxSeconds = int64(math.MaxInt64 / time.Second)
	switch {
	case n > maxSeconds:
		return 0, errors.New("the requested lifetime is too long")
	case n <= 0:
		return 0, nil
	}
	return time.Duration(n) * time.Second, nil
}

// metadataField returns a string of the request's metadata, or "" if it has no string of that name.
func metadataField(r *security.IstioCertificateRequest, name string) string {
	return r.GetMetadata().GetFields()[name].GetStringValue()
}

// newResponse returns the certificates in the form that Istio's agents parse: one PEM string per
// certificate of the chain, and one last string with all roots. Agents use only the last string as
// trust anchors.
func newResponse(i Issued) *security.IstioCertificateResponse {
	r := new(security.IstioCertificateResponse)
	for _, c := range i.Chain {
		r.CertChain = append(r.CertChain, string(EncodeCertificates(c)))
	}
	r.CertChain = append(r.CertChain, string(EncodeCertificates(i.Roots...)))
	return r
}

type noMetrics struct{}

func (noMetrics) RequestReceived()      {}
func (noMetrics) AuthenticationFailed() {}
func (noMetrics) CertificateIssued()    {}
func (noMetrics) RequestRefused(Cause)  {}
