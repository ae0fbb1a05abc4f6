// Package apicoverage accounts for the API: it states for every field of the objects and settings
// that users write what its effect is.
//
// Inputs: the descriptors of istio.io/api, the lines in lines/, one file for each message, and the
// golden cases of the other packages. Output: docs/api-coverage.md. Invariant: every field has a
// line, and a test holds each line. A field is
//
//	done      a case sets it, and without it the output of the case differs: the line names the
//	          case, "route/match_uri", or a test of Go, "internal/ingest/source/xds:TestTLS", whose
//	          body or table must name the field, the one above it and the value. What such a test
//	          compares is not checked
//	default   the value makes what is made without it; in the case of the line, other values make
//	          something else
//	rejected  it has no effect, and a Problem on that very field reports so, which is not there
//	          without the field or value; the page quotes the Problem. A message that is rejected as
//	          a whole has one line
//	obsolete  it means nothing any more, and the line has the reason
//	as        another field of the same type, in everything below it; the case of the line sets it
//
// Values of enums have lines of their own, "tls.mode=MUTUAL", except the unset values.
//
// TestEffects removes the field of each line from its case and generates again: the output of the
// case's golden test must differ. All cases run in one process and without Envoy, in a few seconds.
//
//	go test ./test/conformance/apicoverage -update    # rewrites the page; read the diff before committing
//
// Start with ledger.go; prune.go and product_test.go implement TestEffects.
package apicoverage
