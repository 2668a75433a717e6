package state

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// schema describes the fields of an object and their content. A nil schema is a value that is not
// inspected. "*" means every key of a map, or every element of a list.
type schema map[string]schema

var (
	blockSchema = schema{"numaaffinity": nil, "type": nil, "size": nil}
	podBlocks   = schema{"*": {"memoryblocks": {"*": blockSchema}}}
	tableSchema = schema{"total": nil, "systemreserved": nil, "allocatable": nil, "reserved": nil, "free": nil}
	nodeSchema  = schema{"numberofassignments": nil, "memorymap": {"*": tableSchema}, "cells": nil}

	cpuSchema = schema{
		"policyname": nil, "defaultcpuset": nil, "entries": nil, "podentries": {"*": {"cpuset": nil}},
		"checksum": nil, "data": nil, "datachecksum": nil,
	}
	memorySchema = schema{
		"policyname": nil, "machinestate": {"*": nodeSchema}, "entries": {"*": {"*": {"*": blockSchema}}}, "podentries": podBlocks,
		"checksum": nil, "data": nil, "datachecksum": nil,
	}
)

// unknownFields returns the fields that no version has, in ascending order of their paths. The text
// has already been decoded, so no error can occur.
func unknownFields(f *File, text []byte) []UnknownField {
	known := cpuSchema
	if f.Manager == MemoryManager {
		known = memorySchema
	}
	var found []UnknownField
	known.walk("", text, &found)
	if f.Data == nil {
		return found
	}
	var outer struct {
		Data string `json:"data"`
	}
	if json.Unmarshal(text, &outer) == nil {
		known.walk("data", []byte(outer.Data), &found)
	}
	return found
}

func (s schema) walk(path string, text []byte, found *[]UnknownField) {
	var list []json.RawMessage
	if every, is := s["*"]; is && json.Unmarshal(text, &list) == nil {
		for _, element := range list {
			every.walk(path+"[]", element, found)
		}
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		inner, is := s[strings.ToLower(name)]
		if every, isMap := s["*"]; isMap {
			inner, is = every, true
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case !is:
			*found = append(*found, UnknownField{at, string(fields[name])})
		case inner != nil:
			inner.walk(at, fields[name], found)
		}
	}
}
