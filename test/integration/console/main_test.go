package console

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// screenshots is the folder that receives a screenshot of each page.
var screenshots = flag.String("screenshots", "", "write screenshots of all pages to this folder") //nolint:gochecknoglobals // a flag

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
