package readapi

import (
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// responseError returns a debug.Refusal as an error response with its status and reason, and other
// errors as they are.
func responseError(err error) error {
	var refusal debug.Refusal
	if errors.As(err, &refusal) {
		return huma.NewError(refusal.Status, refusal.Reason)
	}
	return err
}

// isRefusedWith reports whether err is or wraps a debug.Refusal with the status.
func isRefusedWith(err error, status int) bool {
	var refusal debug.Refusal
	return errors.As(err, &refusal) && refusal.Status == status
}

// requireAllNamespaces returns an error with the status 403, which names what is refused, for callers
// that may not read all namespaces.
func requireAllNamespaces(caller debug.Caller, what string) error {
	if !caller.CanRead("") {
		return huma.Error403Forbidden(what + " are for callers that may read all namespaces")
	}
	return nil
}
