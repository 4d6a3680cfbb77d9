//! The part of Python's pickle format that describes data: numbers, text, containers, and what is to be made of them.
//!
//! Nothing is ever made of them here: a call of a Python function stays a node that names it. Nodes refer to each other
//! by number, so pickles that contain themselves, or are nested a million deep, are as harmless as any; and there are no
//! more nodes than bytes. The opcodes are those of protocols 2 to 5 (Python's `pickletools` describes them).

use flambeau_base::{Error, Result};
use std::collections::HashMap;

/// A node's number.
pub(super) type Id = usize;

/// A value, or what it is to be made of.
#[derive(Debug)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit.
    LargeInt,
    Float(f64),
    Text(&'a str),
    Bytes,
    /// A tuple, list or set.
    Sequence(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function of a module.
    Global(&'a str, &'a str),
    /// What a call of `function` with a tuple of arguments gives, and the items put into it then.
    Call {
        function: Id,
        arguments: Id,
        items: Vec<(Id, Id)>,
    },
    /// Something that is not in the pickle, under this name.
    Persistent(Id),
}

/// A pickle's nodes.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    /// What it holds.
    pub root: Id,
}

impl<'a> Pickle<'a> {
    /// Reads a pickle.
    ///
    /// # Errors
    /// When the bytes are none, or have an opcode that describes no data.
    pub fn parse(bytes: &'a [u8]) -> Result<Pickle<'a>> {
        let mut reader =
            Reader { rest: bytes, nodes: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
        let root = reader.run().map_err(|what| Error::io(format!("not a readable pickle: {what}")))?;
        Ok(Pickle { nodes: reader.nodes, root })
    }

    /// A node.
    pub fn node(&self, id: Id) -> &Node<'a> {
        &self.nodes[id]
    }

    /// The items of a tuple or list.
    pub fn sequence(&self, id: Id) -> Option<&[Id]> {
        if let Node::Sequence(items) = self.node(id) { Some(items) } else { None }
    }

    /// A text.
    pub fn text(&self, id: Id) -> Option<&'a str> {
        if let Node::Text(text) = self.node(id) { Some(text) } else { None }
    }

    /// An integer.
    pub fn int(&self, id: Id) -> Option<i64> {
        if let Node::Int(n) = self.node(id) { Some(*n) } else { None }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    nodes: Vec<Node<'a>>,
    stack: Vec<Id>,
    /// Where on the stack marks stand.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

/// What is wrong with a pickle.
type Parsed<T> = std::result::Result<T, String>;

impl<'a> Reader<'a> {
    fn run(&mut self) -> Parsed<Id> {
        loop {
            let opcode = self.number::<1>()? as u8;
            match opcode {
                // PROTO, FRAME: nothing that reading needs.
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'(' => self.marks.push(self.stack.len()),
                b'.' => return self.pop(),
                b'0' => drop(self.pop()?),
                b'1' => drop(self.since_mark()?),
                b'2' => {
                    let top = *self.stack.last().ok_or("it takes from an empty stack")?;
                    self.stack.push(top);
                }
                b'N' => self.push(Node::None),
                0x88 => self.push(Node::Bool(true)),
                0x89 => self.push(Node::Bool(false)),
                b'K' => self.integer::<1>(false)?,
                b'M' => self.integer::<2>(false)?,
                b'J' => self.integer::<4>(true)?,
                0x8a => self.long::<1>()?,
                0x8b => self.long::<4>()?,
                b'G' => {
                    let bits = self.take(8)?.try_into().map_err(|_| "a short number")?;
                    self.push(Node::Float(f64::from_be_bytes(bits)));
                }
                0x8c => self.push_text::<1>()?,
                b'X' => self.push_text::<4>()?,
                0x8d => self.push_text::<8>()?,
                b'C' => self.push_bytes::<1>()?,
                b'B' => self.push_bytes::<4>()?,
                0x8e | 0x96 => self.push_bytes::<8>()?,
                b')' | b']' | 0x8f => self.push(Node::Sequence(Vec::new())),
                b'}' => self.push(Node::Dict(Vec::new())),
                // TUPLE, LIST and FROZENSET take what stands since the mark.
                b't' | b'l' | 0x91 => {
                    let items = self.since_mark()?;
                    self.push(Node::Sequence(items));
                }
                b'd' => {
                    let items = self.since_mark()?;
                    self.push(Node::Dict(pairs(&items)?));
                }
                0x85..=0x87 => {
                    let count = usize::from(opcode - 0x84);
                    let at = self.stack.len().checked_sub(count).ok_or("it takes from an empty stack")?;
                    let items = self.stack.split_off(at);
                    self.push(Node::Sequence(items));
                }
                b'a' => {
                    let item = self.pop()?;
                    self.extend(vec![item])?;
                }
                b'e' | 0x90 => {
                    let items = self.since_mark()?;
                    self.extend(items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.insert(vec![(key, value)])?;
                }
                b'u' => {
                    let items = self.since_mark()?;
                    self.insert(pairs(&items)?)?;
                }
                b'q' => self.remember::<1>()?,
                b'r' => self.remember::<4>()?,
                0x94 => {
                    let number = u32::try_from(self.memo.len()).map_err(|_| "its memo is too large")?;
                    self.remember_as(number)?;
                }
                b'h' => self.recall::<1>()?,
                b'j' => self.recall::<4>()?,
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push(Node::Global(module, name));
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    match (&self.nodes[module], &self.nodes[name]) {
                        (&Node::Text(module), &Node::Text(name)) => self.push(Node::Global(module, name)),
                        _ => return Err("a name that is no text".to_owned()),
                    }
                }
                // REDUCE and NEWOBJ differ in how Python makes the object.
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    self.push(Node::Call { function, arguments, items: Vec::new() });
                }
                0x92 => {
                    let (_named, arguments, function) = (self.pop()?, self.pop()?, self.pop()?);
                    self.push(Node::Call { function, arguments, items: Vec::new() });
                }
                // BUILD: an object's own attributes, of which no data is made.
                b'b' => drop(self.pop()?),
                b'Q' => {
                    let name = self.pop()?;
                    self.push(Node::Persistent(name));
                }
                other => return Err(format!("opcode {other:#04x} is unknown")),
            }
        }
    }

    fn push(&mut self, node: Node<'a>) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    fn pop(&mut self) -> Parsed<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err("it takes from an empty stack".to_owned());
        }
        self.stack.pop().ok_or_else(|| "it takes from an empty stack".to_owned())
    }

    fn since_mark(&mut self) -> Parsed<Vec<Id>> {
        let at = self.marks.pop().ok_or("a mark is missing")?;
        Ok(self.stack.split_off(at))
    }

    fn top(&mut self) -> Parsed<&mut Node<'a>> {
        let id = *self.stack.last().ok_or("it takes from an empty stack")?;
        Ok(&mut self.nodes[id])
    }

    fn extend(&mut self, items: Vec<Id>) -> Parsed<()> {
        match self.top()? {
            Node::Sequence(list) => list.extend(items),
            // A list of a class of its own: what is in it is not data that we know.
            Node::Call { .. } => {}
            _ => return Err("it appends to what is no list".to_owned()),
        }
        Ok(())
    }

    fn insert(&mut self, items: Vec<(Id, Id)>) -> Parsed<()> {
        match self.top()? {
            Node::Dict(all) | Node::Call { items: all, .. } => all.extend(items),
            _ => return Err("it sets items of what is no dictionary".to_owned()),
        }
        Ok(())
    }

    fn remember<const N: usize>(&mut self) -> Parsed<()> {
        let number = self.number::<N>()? as u32;
        self.remember_as(number)
    }

    fn remember_as(&mut self, number: u32) -> Parsed<()> {
        let top = *self.stack.last().ok_or("it takes from an empty stack")?;
        self.memo.insert(number, top);
        Ok(())
    }

    fn recall<const N: usize>(&mut self) -> Parsed<()> {
        let number = self.number::<N>()? as u32;
        self.stack.push(*self.memo.get(&number).ok_or("it recalls what was not remembered")?);
        Ok(())
    }

    fn integer<const N: usize>(&mut self, signed: bool) -> Parsed<()> {
        let n = self.number::<N>()?;
        self.push(Node::Int(if signed { i64::from(n as u32 as i32) } else { n as i64 }));
        Ok(())
    }

    /// An integer of any length, in two's complement.
    fn long<const N: usize>(&mut self) -> Parsed<()> {
        let length = self.number::<N>()?;
        let bytes = self.take(length)?;
        let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut word = if negative { [0xff; 8] } else { [0; 8] };
        self.push(match word.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(bytes);
                Node::Int(i64::from_le_bytes(word))
            }
            None => Node::LargeInt,
        });
        Ok(())
    }

    fn push_text<const N: usize>(&mut self) -> Parsed<()> {
        let length = self.number::<N>()?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8")?;
        self.push(Node::Text(text));
        Ok(())
    }

    fn push_bytes<const N: usize>(&mut self) -> Parsed<()> {
        let length = self.number::<N>()?;
        self.take(length)?;
        self.push(Node::Bytes);
        Ok(())
    }

    fn line(&mut self) -> Parsed<&'a str> {
        let end = self.rest.iter().position(|&b| b == b'\n').ok_or("it ends inside a name")?;
        let line = std::str::from_utf8(&self.rest[..end]).map_err(|_| "a name is not UTF-8")?;
        self.rest = &self.rest[end + 1..];
        Ok(line)
    }

    fn take(&mut self, length: u64) -> Parsed<&'a [u8]> {
        let length = usize::try_from(length).ok().filter(|&n| n <= self.rest.len()).ok_or("it ends too early")?;
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// A number of `N` bytes, without a sign.
    fn number<const N: usize>(&mut self) -> Parsed<u64> {
        let mut word = [0; 8];
        word[..N].copy_from_slice(self.take(N as u64)?);
        Ok(u64::from_le_bytes(word))
    }
}

fn pairs(items: &[Id]) -> Parsed<Vec<(Id, Id)>> {
    if items.len() % 2 == 1 {
        return Err("a key without a value".to_owned());
    }
    Ok(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_texts() {
        // pickle.dumps((1, 300, -2, 1 << 40, -1 << 70, 0.5, "é", b"x", None, True), 4)
        let bytes = b"\x80\x04\x95\x36\x00\x00\x00\x00\x00\x00\x00(K\x01M,\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\
            \x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xc0G?\xe0\x00\x00\x00\x00\x00\x00\x8c\x02\xc3\xa9\x94C\x01x\x94N\x88t\x94.";
        let pickle = Pickle::parse(bytes).unwrap();
        let items: Vec<String> =
            pickle.sequence(pickle.root).unwrap().iter().map(|&i| format!("{:?}", pickle.node(i))).collect();
        let expected = [
            "Int(1)",
            "Int(300)",
            "Int(-2)",
            "Int(1099511627776)",
            "LargeInt",
            "Float(0.5)",
            "Text(\"é\")",
            "Bytes",
            "None",
            "Bool(true)",
        ];
        assert_eq!(items, expected);
    }

    #[test]
    fn what_contains_itself_or_is_deep_is_read() {
        // x = []; x.append(x)
        let pickle = Pickle::parse(b"]q\x00h\x00a.").unwrap();
        assert_eq!(pickle.sequence(pickle.root), Some(&[pickle.root][..]));
        let mut deep = vec![b']'];
        deep.extend([0x85].repeat(1_000_000));
        deep.push(b'.');
        assert!(Pickle::parse(&deep).is_ok());
    }

    #[test]
    fn a_call_is_data() {
        let pickle = Pickle::parse(b"cos\nsystem\n\x8c\x02ls\x85R.").unwrap();
        let Node::Call { function, arguments, .. } = pickle.node(pickle.root) else { panic!("no call") };
        assert!(matches!(pickle.node(*function), Node::Global("os", "system")));
        assert_eq!(pickle.text(pickle.sequence(*arguments).unwrap()[0]), Some("ls"));
    }

    #[test]
    fn bad_pickles_are_refused() {
        for bad in [
            &b""[..],
            b"K",
            b".",
            b"(.",
            b"(K\x01K\x02",
            b"K\x01(0.",
            b"t.",
            b"\x85.",
            b"h\x00.",
            b"K\x01K\x02a.",
            b"}K\x01K\x02K\x03(u.",
            b"}(K\x01u.",
            b"X\xff\xff\xff\xffab.",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
            b"X\x01\x00\x00\x00\xff.",
            b"cno end",
            b"K\x01K\x02\x93.",
            b"Pid\n.",
        ] {
            assert!(Pickle::parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_danger(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Pickle::parse(&noise);
        }
    }
}
