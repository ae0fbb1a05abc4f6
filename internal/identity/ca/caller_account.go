package ca

import (
	"context"
	"errors"

	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// authenticate returns the caller of a request. It counts and logs failures, and returns them as
// the gRPC status Unavailable if the caller could not be checked, otherwise Unauthenticated.
func (s *Service) authenticate(ctx context.Context) (authenticate.Caller, error) {
	request := authenticate.RequestFromContext(ctx)
	caller, err := s.o.Authenticators.Authenticate(ctx, request)
	if err == nil {
		return caller, nil
	}
	s.o.Metrics.AuthenticationFailed()
	s.o.Log.Warn("certificate request of an unauthenticated caller refused", "peer", request.Peer, "err", err)
	if errors.Is(err, authenticate.ErrUnavailable) {
		return authenticate.Caller{}, errAuthUnavailable
	}
	return authenticate.Caller{}, errUnauthenticated
}

// accountFor returns the service account for the new certificate, with the mesh's current trust
// domain. It is the caller's own (callerAccount), or the impersonated identity that the request
// names. Refusals of the caller, and of impersonation without permission, are counted and logged;
// the error is a gRPC status.
func (s *Service) accountFor(
	ctx context.Context,
	caller authenticate.Caller,
	r *security.IstioCertificateRequest,
) (account spiffe.Account, err error) {
	if caller, account, err = s.callerAccount(ctx, caller); err != nil {
		return spiffe.Account{}, err
	}
	if other := metadataField(r, impersonationField); other != "" {
		if account, err = s.impersonatedAccount(ctx, caller, other); err != nil {
			s.o.Metrics.AuthenticationFailed()
			s.o.Log.Warn(
				"certificate request refused: impersonation denied",
				"peer", authenticate.RequestFromContext(ctx).Peer,
				"caller", caller.ID.String(),
				"err", err,
			)
			return spiffe.Account{}, errImpersonationDenied
		}
	}
	// A caller from a trust domain alias gets a certificate of the current trust domain.
	account.TrustDomain = s.o.TrustDomain()
	return account, nil
}

// callerAccount returns the caller and its service account. A caller whose workload no longer
// exists, or cannot be checked now, is replaced by the caller of another valid credential in the
// request (checkMembership), and refused if there is none. An identity that is no service account
// is refused too. Refusals are counted and logged; the error is a gRPC status, Unavailable if the
// workload cannot be checked.
func (s *Service) callerAccount(
	ctx context.Context,
	caller authenticate.Caller,
) (authenticate.Caller, spiffe.Account, error) {
	request := authenticate.RequestFromContext(ctx)
	caller, err := s.checkMembership(ctx, request, caller)
	if err != nil {
		s.o.Metrics.RequestRefused(CauseIdentity)
		s.o.Log.Warn(
			"certificate renewal refused: workload not found",
			"peer", request.Peer,
			"id", caller.ID.String(),
			"err", err,
		)
		if errors.Is(err, authenticate.ErrUnavailable) {
			return caller, spiffe.Account{}, errAuthUnavailable
		}
		return caller, spiffe.Account{}, errRemoved
	}
	account, ok := caller.ID.Account()
	if !ok {
		s.o.Metrics.RequestRefused(CauseIdentity)
		s.o.Log.Warn(
			"certificate request refused: the caller's identity is not a service account",
			"peer", request.Peer,
			"id", caller.ID.String(),
		)
		return caller, spiffe.Account{}, errNotAnAccount
	}
	return caller, account, nil
}

// checkMembership returns c if it has no certificate or no service account, or if CheckMember is
// nil or accepts it. Otherwise it authenticates the request again without the TLS certificate. It
// returns that caller if this succeeds with another credential than a certificate. If not, it
// returns c and the error of CheckMember.
func (s *Service) checkMembership(
	ctx context.Context,
	r authenticate.Request,
	c authenticate.Caller,
) (authenticate.Caller, error) {
	account, ok := c.ID.Account()
	if !c.HasCertificate || s.o.CheckMember == nil || !ok {
		return c, nil
	}
	err := s.o.CheckMember(account)
	if err == nil {
		return c, nil
	}
	r.TLS = nil
	if other, otherErr := s.o.Authenticators.Authenticate(ctx, r); otherErr == nil && !other.HasCertificate {
		return other, nil
	}
	return c, err
}

// impersonatedAccount returns the account of the SPIFFE ID other. It returns an error if
// impersonation is disabled, other is not a service account of the trust domain, or Impersonation
// refuses it.
func (s *Service) impersonatedAccount(
	ctx context.Context,
	caller authenticate.Caller,
	other string,
) (spiffe.Account, error) {
	if s.o.Impersonation == nil {
		return spiffe.Account{}, errors.New("impersonation is disabled: CA_TRUSTED_NODE_ACCOUNTS is empty")
	}
	id, err := spiffe.Parse(other)
	if err != nil {
		return spiffe.Account{}, err
	}
	account, ok := id.Account()
	if !ok || account.TrustDomain != s.o.TrustDomain() {
		return spiffe.Account{}, errors.New("the impersonated identity is not a service account of this trust domain")
	}
	return account, s.o.Impersonation.Authorize(ctx, caller, account)
}
