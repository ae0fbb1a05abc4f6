// Package ledger keeps account of the API: what becomes of every field of the objects and settings that users write.
//
// In: the descriptors of istio.io/api, the lines that people keep in lines/, one file for each message, and the cases of
// the other rooms. Out: docs/api-coverage.md. Law: no field is without a line, and no line says what is not so. A field is
//
//	done      and a case sets it: the line names the case, "route/match_uri", or a test of Go, "internal/source/xds:TestTLS"
//	rejected  and whoever sets it is told so; the reason on the page is what the product says
//	obsolete  and the line says why nobody misses it
//	as        another field of the same type, in all that is below it; a case sets it
//
// Values of enums have lines of their own, "tls.mode=MUTUAL", but for those that stand for nothing being said.
//
//	go test ./test/ledger -update    # writes the page anew; read the diff before committing
//
// Start with ledger.go.
package ledger
