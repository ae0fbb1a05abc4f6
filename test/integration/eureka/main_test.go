package eureka

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Clients of the tests keep idle connections.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
