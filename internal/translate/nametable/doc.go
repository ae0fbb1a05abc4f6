// Package nametable generates the name table of NDS: the addresses with which the DNS proxy beside
// an application answers for each host.
//
// The inputs are the services of a View, and the endpoints of the headless ones. The output is one
// encoded NameTable, shared by all Views with equal inputs. Equal inputs yield equal bytes. A table
// is the concatenation of the encoded lines of its services, which are cached, so a change of one
// service costs its lines and a copy.
//
// Start with [Generator.All] in generator.go. File lines.go encodes the lines of a service, and
// table.go assembles the table.
package nametable
