#[path = "all/question.rs"] mod question;
