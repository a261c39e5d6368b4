exception Bad_file of string * int

type node = string * int
type padding = { axes : (int * int) list; neutral : float }

type tensor = {
  node : node;
  label : string list;
  precision : string;
  dims : int list;
  padding : padding option;
  data : string;
}

type training = {
  version : int;
  step : int;
  epoch : int;
  position : int;
  host_rng : string option;
  extra : (string * string) list;
  seeds : int list option;
  state : node list;
}

type checkpoint = { alignment : int; tensors : tensor list; training : training option }

let frame = 4 (* bytes of the header's length *)
let max_header = 100_000_000
let max_depth = 1_000
let max_alignment = 1 lsl 26

let precisions = (* with the bytes of an element *)
  [ ("void", 0); ("byte", 1); ("uint16", 2); ("int32", 4); ("uint32", 4); ("int64", 8); ("uint64", 8);
    ("uint4x32", 16); ("half", 2); ("bfloat16", 2); ("fp8", 1); ("single", 4); ("double", 8) ]

let fail at message = raise (Bad_file (message, at))

(* A list of a header may be long: this map does not use the stack. *)
let map f list = List.rev (List.rev_map f list)

(* --- S-expressions ----------------------------------------------------------------------------------------------- *)

type sexp = { at : int; (* where it begins in the file *) form : form }
and form = Atom of string | List of sexp list

let code_of_digits text pos prefix length =
  if pos + length > String.length text then None
  else
    let digit = function '0' .. '9' -> true | 'a' .. 'f' | 'A' .. 'F' -> prefix <> "" | _ -> false in
    let digits = String.sub text pos length in
    match int_of_string_opt (prefix ^ digits) with
    | Some code when code < 256 && Seq.fold_left (fun all c -> all && digit c) true (String.to_seq digits) -> Some code
    | _ -> None

(* The quoted atom that begins at [start], and the position after it. [text] ends with the header. *)
let quoted_atom text start =
  let length = String.length text and atom = Buffer.create 16 in
  let at pos = if pos < length then text.[pos] else fail start "a quoted atom is not closed" in
  let rec skip_blanks pos = match at pos with ' ' | '\t' -> skip_blanks (pos + 1) | _ -> read pos
  and add byte next = Buffer.add_char atom byte; read next
  and numeric pos prefix digits =
    match code_of_digits text pos prefix digits with
    | Some code -> add (Char.chr code) (pos + digits)
    | None -> fail pos "a numeric escape that lacks digits or passes 255"
  and read pos =
    match at pos with
    | '"' -> (Buffer.contents atom, pos + 1)
    | '\\' -> escape (pos + 1)
    | byte -> add byte (pos + 1)
  and escape pos =
    match at pos with
    | '\n' -> skip_blanks (pos + 1)
    | '\r' when at (pos + 1) = '\n' -> skip_blanks (pos + 2)
    | '0' .. '9' -> numeric pos "" 3
    | 'x' -> numeric (pos + 1) "0x" 2
    | 'n' -> add '\n' (pos + 1)
    | 't' -> add '\t' (pos + 1)
    | 'r' -> add '\r' (pos + 1)
    | 'b' -> add '\b' (pos + 1)
    | ('"' | '\\' | '\'' | '\r') as byte -> add byte (pos + 1)
    | byte -> Buffer.add_char atom '\\'; add byte (pos + 1)
  in
  read (start + 1)

(* The one expression between [start] and the end of [text]. *)
let parse text start =
  let length = String.length text in
  let next_is pos byte = pos + 1 < length && text.[pos + 1] = byte in
  let rec skip_line pos =
    if pos < length && text.[pos] <> '\n' && text.[pos] <> '\r' then skip_line (pos + 1) else pos in
  let rec skip_block start depth pos =
    if depth = 0 then pos
    else if pos >= length then fail start "a block comment is not closed"
    else
      match text.[pos] with
      | '"' -> skip_block start depth (snd (quoted_atom text pos))
      | '#' when next_is pos '|' -> skip_block start (depth + 1) (pos + 2)
      | '|' when next_is pos '#' -> skip_block start (depth - 1) (pos + 2)
      | _ -> skip_block start depth (pos + 1) in
  let rec bare_end pos =
    if pos >= length then pos
    else
      match text.[pos] with
      | ' ' | '\t' | '\n' | '\012' | '\r' | '(' | ')' | '"' | ';' -> pos
      | '#' when next_is pos '|' -> fail pos "a comment token inside an atom"
      | '|' when next_is pos '#' -> fail pos "a comment token inside an atom"
      | _ -> bare_end (pos + 1) in
  (* The items from [pos] to the closing parenthesis or the end of the text, in reverse; [dropped] of the next ones
     are behind "#;". *)
  let rec items depth start dropped found pos =
    let add item pos =
      if dropped > 0 then items depth start (dropped - 1) found pos else items depth start 0 (item :: found) pos in
    if pos >= length then
      if depth > 0 || dropped > 0 then fail start "a list or a comment is not ended" else (found, pos)
    else
      match text.[pos] with
      | ' ' | '\t' | '\n' | '\012' -> items depth start dropped found (pos + 1)
      | '\r' when next_is pos '\n' -> items depth start dropped found (pos + 2)
      | '\r' -> fail pos "a carriage return without a line feed"
      | ';' -> items depth start dropped found (skip_line pos)
      | '#' when next_is pos ';' -> items depth start (dropped + 1) found (pos + 2)
      | '#' when next_is pos '|' -> items depth start dropped found (skip_block pos 1 (pos + 2))
      | '(' ->
          if depth = max_depth then fail pos "lists that nest too deeply";
          let inner, after = items (depth + 1) pos 0 [] (pos + 1) in
          add { at = pos; form = List (List.rev inner) } after
      | ')' ->
          if depth = 0 || dropped > 0 then fail pos "an unexpected closing parenthesis";
          (found, pos + 1)
      | '"' ->
          let atom, after = quoted_atom text pos in
          add { at = pos; form = Atom atom } after
      | _ ->
          let after = bare_end pos in
          if after = length && depth = 0 && found <> [] then fail pos "an atom that nothing ends";
          add { at = pos; form = Atom (String.sub text pos (after - pos)) } after
  in
  match items 0 start 0 [] start with
  | [ one ], _ -> one
  | _ -> fail start "a header that is not one expression"

(* --- values ------------------------------------------------------------------------------------------------------ *)

let atom sexp = match sexp.form with Atom text -> text | List _ -> fail sexp.at "a list in the place of an atom"
let list sexp = match sexp.form with List items -> items | Atom _ -> fail sexp.at "an atom in the place of a list"

let pair sexp =
  match list sexp with [ first; second ] -> (first, second) | _ -> fail sexp.at "a list that is not a pair"

let is_atom sexp text = match sexp.form with Atom found -> found = text | List _ -> false

(* OCaml reads 0x7fffffffffffffff as -1, and 0u9223372036854775807 too: the sign tells that it does not fit. *)
let integer sexp =
  let text = atom sexp in
  match int_of_string_opt text with
  | Some number when number = 0 || number < 0 = (text.[0] = '-') -> number
  | _ -> fail sexp.at "no integer of 63 bits"

let natural sexp =
  let number = integer sexp in
  if number < 0 then fail sexp.at "a negative number" else number

let node (namespace, id) = ((match atom namespace with "" -> "ocannl" | text -> text), natural id)

(* A record is a list of (key value) pairs. The first of repeated keys counts, and other keys do no harm. *)
let optional record =
  let values = Hashtbl.create 8 in
  let add (key, value) = if not (Hashtbl.mem values (atom key)) then Hashtbl.add values (atom key) value in
  List.iter (fun field -> add (pair field)) (list record);
  Hashtbl.find_opt values

let mandatory record =
  let find = optional record in
  fun key -> match find key with Some value -> value | None -> fail record.at ("a record without " ^ key)

let check_each_once at what items =
  let rec check = function
    | first :: (second :: _ as rest) -> if first = second then fail at (what ^ " that occurs twice") else check rest
    | _ -> ()
  in
  check (List.sort compare items)

(* --- tensors ----------------------------------------------------------------------------------------------------- *)

(* From left to right: an overflow counts even if a later factor is zero. *)
let product at factors =
  let multiply a b = if b > 0 && a > max_int / b then fail at "a size that passes 63 bits" else a * b in
  List.fold_left multiply 1 factors

let padding_of sexp =
  if is_atom sexp "none" then None
  else
    let widths, neutral = pair sexp in
    let axis sexp = let left, right = pair sexp in (natural left, natural right) in
    let axes = map axis (list widths) in
    match float_of_string_opt (atom neutral) with
    | Some neutral -> Some { axes; neutral }
    | None -> fail neutral.at "a neutral value that is no number"

let stored_extents at dims = function
  | None -> dims
  | Some { axes; _ } ->
      if List.compare_lengths axes dims <> 0 then fail at "a padding of another rank";
      let stored dim (left, right) =
        if left > dim || right > dim - left then fail at "a padding wider than its axis" else dim - left - right in
      List.rev (List.rev_map2 stored dims axes)

(* A tensor, and where its payload begins in the file. *)
let tensor_of file data_start sexp =
  let field = mandatory sexp and at = sexp.at in
  let node = node (field "namespace", field "id") and label = map atom (list (field "label")) in
  let named (name, _) = is_atom (field "prec") (String.capitalize_ascii name ^ "_prec") in
  let precision, element =
    match List.find_opt named precisions with Some found -> found | None -> fail at "an unknown precision" in
  let dims = map natural (list (field "dims")) and padding = padding_of (field "padding") in
  let offset = natural (field "offset") and length = natural (field "byte_length") in
  ignore (product at (dims @ [ element ]));
  if length <> product at (stored_extents at dims padding @ [ element ]) then
    fail at "a byte length that does not fit the extents";
  let room = String.length file - data_start in
  if offset > room || length > room - offset then fail at "a payload that passes the end of the file";
  let start = data_start + offset in
  (start, { node; label; precision; dims; padding; data = String.sub file start length })

let check_apart placed =
  let filled = List.filter (fun (_, tensor) -> tensor.data <> "") placed in
  let range (start, tensor) = (start, start + String.length tensor.data) in
  let check previous (start, stop) = if start < previous then fail start "payloads that share bytes" else stop in
  ignore (List.fold_left check 0 (List.sort compare (map range filled)))

(* --- training ---------------------------------------------------------------------------------------------------- *)

let training_of tensors sexp =
  let field = mandatory sexp and at = sexp.at in
  let version = natural (field "version") in
  if version <> 1 && version <> 2 then fail at "an unknown version of the training record";
  let host_rng = field "host_rng" in
  let host_rng =
    if is_atom host_rng "none" then None
    else match pair host_rng with
      | tag, state when is_atom tag "some" -> Some (atom state)
      | tag, _ -> fail tag.at "neither none nor some" in
  let extra = map (fun entry -> let key, value = pair entry in (atom key, atom value)) (list (field "extra")) in
  check_each_once at "a key of extra" (map fst extra);
  let seeds =
    match optional sexp "seeds" with
    | Some seeds when version = 2 -> Some (map integer (list seeds))
    | None when version = 1 -> None
    | _ -> fail at "seeds in version 1, or none in version 2" in
  let state = map (fun entry -> node (pair entry)) (list (field "state")) in
  if state = [] then fail at "an empty state";
  check_each_once at "a node of the state" state;
  let known = Hashtbl.create 64 in
  List.iter (fun tensor -> Hashtbl.replace known tensor.node ()) tensors;
  if not (List.for_all (Hashtbl.mem known) state) then fail at "a state with a node that is no tensor";
  { version; step = natural (field "step"); epoch = natural (field "epoch"); position = natural (field "position");
    host_rng; extra; seeds; state }

(* --- the whole file ---------------------------------------------------------------------------------------------- *)

let is_blank byte = String.contains " \t\n\r\011\012" byte

let read file =
  if String.length file < frame then fail 0 "too few bytes for a header length";
  let length = Int32.to_int (String.get_int32_be file 0) in
  if length < 0 || length > max_header || length > String.length file - frame then
    fail 0 "a header length that is not allowed, or passes the end of the file";
  let data_start = frame + length in
  (* Around the expression, what else is white space is skipped too. *)
  let rec first pos = if pos < data_start && is_blank file.[pos] then first (pos + 1) else pos in
  let rec last pos = if pos > frame && is_blank file.[pos - 1] then last (pos - 1) else pos in
  let header = parse (String.sub file 0 (last data_start)) (first frame) in
  let field = mandatory header in
  if natural (field "version") <> 1 then fail header.at "an unknown version";
  let alignment = match optional header "alignment" with Some value -> natural value | None -> 1 in
  if alignment < 1 || alignment > max_alignment then fail header.at "an alignment that is not allowed";
  let placed = map (tensor_of file data_start) (list (field "tensors")) in
  let tensors = map snd placed in
  check_each_once header.at "a node" (map (fun tensor -> tensor.node) tensors);
  check_apart placed;
  { alignment; tensors; training = Option.map (training_of tensors) (optional header "training") }
