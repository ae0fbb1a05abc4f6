package jwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
)

// publicError is an error that users may read: its text contains nothing of the response.
type publicError struct{ error }

func (c publicError) Unwrap() error { return c.error }

// faultText returns the text of an error for the author of the rule. It is that of a publicError,
// or else a fixed text about DNS, certificates, TLS, a timeout, or the connection. Authors of rules
// must not learn about the control plane's network from it; details are only logged.
func faultText(err error) string {
	var (
		public      publicError
		name        *net.DNSError
		verify      *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		certificate x509.CertificateInvalidError
		hostname    x509.HostnameError
		record      tls.RecordHeaderError
		timeout     net.Error
	)
	switch {
	case errors.As(err, &public):
		return public.Error()
	case errors.As(err, &name):
		return "DNS lookup of the server failed"
	case errors.As(err, &authority), errors.As(err, &certificate), errors.As(err, &hostname), errors.As(err, &verify):
		return "the server's certificate is not trusted"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	case errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "timeout: the server did not respond"
	default:
		return "connection failed, or the address is not allowed"
	}
}
