package jwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
)

// content is what is wrong with an answer. It is for users to read: there is nothing in it of what was answered.
type content struct{ error }

func (c content) Unwrap() error { return c.error }

// fault says what went wrong, for the user who wrote where to look. It is one of few texts, the same each time: details are for the
// log, since who may write rules is not to learn by them what is where in the control plane's network.
func fault(err error) string {
	var (
		said        content
		name        *net.DNSError
		verify      *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		certificate x509.CertificateInvalidError
		hostname    x509.HostnameError
		record      tls.RecordHeaderError
		timeout     net.Error
	)
	switch {
	case errors.As(err, &said):
		return said.Error()
	case errors.As(err, &name):
		return "the server's name is not known"
	case errors.As(err, &authority), errors.As(err, &certificate), errors.As(err, &hostname), errors.As(err, &verify):
		return "the server's certificate is not trusted"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "the server did not answer in time"
	default:
		return "the server cannot be reached, or must not be"
	}
}
