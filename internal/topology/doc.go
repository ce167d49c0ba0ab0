// Package topology knows where a cluster's slots are at one moment.
//
// A Map is built once, from what a node answered, and never changed: readers
// hold it by an atomic pointer, a refresh swaps it. Nothing here talks to a
// node. No error text and no String method holds an address: what they print
// may reach logs, labels and clients. Addresses are in the fields named Addr.
package topology
